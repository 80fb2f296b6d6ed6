// tenzro/blob/1: the layout byte by byte, round trips, and everything that is refused.
#include "tenzro/wire/blob_message.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::wire {
namespace {

using ::testing::HasSubstr;

BlobRequest request_of(std::uint64_t offset, std::uint32_t length) {
  BlobRequest request{.offset = offset, .length = length};
  for (std::size_t i = 0; i < request.hash.size(); ++i)
    request.hash[i] = static_cast<std::uint8_t>(i + 1);
  return request;
}

std::vector<std::uint8_t> bytes_of(const BufferRef& buffer) {
  const auto all = as_u8(buffer.bytes());
  return {all.begin(), all.end()};
}

BufferRef buffer_of(const std::vector<std::uint8_t>& bytes) {
  return BufferRef::copy_of(std::as_bytes(std::span(bytes)));
}

BufferRef joined(const BufferRef& head, std::string_view rest) {
  return BufferRef::copy_of(std::string(head.text()) + std::string(rest));
}

TEST(BlobMessage, RequestHasTheDocumentedBytes) {
  const std::vector<std::uint8_t> bytes =
      bytes_of(encode_blob_request(request_of(0x0102030405060708, 0x00200000)));
  EXPECT_EQ(to_hex(bytes),
            "01000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
            "080706050403020100002000");
}

TEST(BlobMessage, ReplyHeadHasTheDocumentedBytes) {
  EXPECT_EQ(to_hex(bytes_of(encode_blob_head(BlobStatus::busy, 0))), "0100020000000000000000");
  EXPECT_EQ(to_hex(bytes_of(encode_blob_head(BlobStatus::ok, 0x0102))), "0100000201000000000000");
  EXPECT_EQ(to_hex(bytes_of(encode_blob_error("no"))), "01000300000000000000006e6f");
}

TEST(BlobMessage, RequestsRoundTrip) {
  for (const BlobRequest& request :
       {request_of(0, 0), request_of(7, 9),
        request_of(std::numeric_limits<std::uint64_t>::max() - kBlobRangeBytesMax,
                   static_cast<std::uint32_t>(kBlobRangeBytesMax))}) {
    EXPECT_EQ(decode_blob_request(encode_blob_request(request)), request);
  }
}

TEST(BlobMessage, RequestsOfAnotherLengthAreRefused) {
  const std::vector<std::uint8_t> whole = bytes_of(encode_blob_request(request_of(3, 5)));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode_blob_request(
        buffer_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)})));
  }
  std::vector<std::uint8_t> longer = whole;
  longer.push_back(0);
  EXPECT_FALSE(decode_blob_request(buffer_of(longer)));
}

TEST(BlobMessage, AnotherVersionIsNamedInASentence) {
  std::vector<std::uint8_t> bytes = bytes_of(encode_blob_request(request_of(3, 5)));
  bytes[0] = 9;
  const auto refused = decode_blob_request(buffer_of(bytes));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unknown_method);
  EXPECT_THAT(refused.error().message(), HasSubstr("version 9"));
}

TEST(BlobMessage, NeededFeaturesAreNamedInASentence) {
  std::vector<std::uint8_t> bytes = bytes_of(encode_blob_request(request_of(3, 5)));
  bytes[1] = 6;
  const auto refused = decode_blob_request(buffer_of(bytes));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unknown_method);
  EXPECT_EQ(refused.error().message(), "the message needs features that this node lacks: 6");
}

TEST(BlobMessage, UnknownFeaturesLongRangesAndEndlessRangesAreRefused) {
  std::vector<std::uint8_t> bytes = bytes_of(encode_blob_request(request_of(3, 5)));
  bytes[1] = 1;
  EXPECT_FALSE(decode_blob_request(buffer_of(bytes)));
  const auto too_long = static_cast<std::uint32_t>(kBlobRangeBytesMax + 1);
  EXPECT_FALSE(decode_blob_request(encode_blob_request(request_of(0, too_long))));
  EXPECT_FALSE(decode_blob_request(encode_blob_request(request_of(UINT64_MAX, 1))));
}

TEST(BlobMessage, RangeIsGivenWithoutACopy) {
  const BufferRef bytes = joined(encode_blob_head(BlobStatus::ok, 100), "01234");
  const auto reply = decode_blob_reply(bytes, request_of(95, 5));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->size_bytes, 100U);
  EXPECT_EQ(reply->bytes.text(), "01234");
  EXPECT_EQ(reply->bytes.bytes().data(), bytes.bytes().data() + kBlobReplyHeadBytes);
}

TEST(BlobMessage, SizeAloneNeedsNoBytes) {
  const auto reply = decode_blob_reply(encode_blob_head(BlobStatus::ok, 100), request_of(0, 0));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->size_bytes, 100U);
  EXPECT_TRUE(reply->bytes.empty());
}

TEST(BlobMessage, SentenceOfAPeerIsKeptAndCut) {
  const std::string sentence(2 * kBlobErrorTextBytesMax, 'x');
  const auto reply = decode_blob_reply(encode_blob_error(sentence), request_of(0, 5));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, BlobStatus::error);
  EXPECT_EQ(reply->error, std::string(kBlobErrorTextBytesMax, 'x'));
}

TEST(BlobMessage, RepliesThatAreNotWhatWasAskedForAreRefused) {
  const BufferRef ok = encode_blob_head(BlobStatus::ok, 100);
  EXPECT_FALSE(decode_blob_reply(joined(ok, "0123"), request_of(0, 5)));    // short
  EXPECT_FALSE(decode_blob_reply(joined(ok, "012345"), request_of(0, 5)));  // long
  EXPECT_FALSE(decode_blob_reply(joined(ok, "01234"), request_of(96, 5)));  // beyond the end
  EXPECT_FALSE(decode_blob_reply(joined(ok, "0"), request_of(0, 0)));
  EXPECT_FALSE(
      decode_blob_reply(joined(encode_blob_head(BlobStatus::busy, 0), "0"), request_of(0, 5)));
  EXPECT_FALSE(decode_blob_reply(encode_blob_head(BlobStatus::not_found, 7), request_of(0, 5)));
  EXPECT_FALSE(
      decode_blob_reply(joined(encode_blob_error(std::string(512, 'x')), "x"), request_of(0, 5)));
  for (const std::size_t at : {0U, 1U, 2U}) {
    std::vector<std::uint8_t> bytes = bytes_of(ok);
    bytes[at] = 0x55;
    EXPECT_FALSE(decode_blob_reply(buffer_of(bytes), request_of(0, 0))) << at;
  }
  for (std::size_t size = 0; size < kBlobReplyHeadBytes; ++size)
    EXPECT_FALSE(decode_blob_reply(ok.slice(0, size), request_of(0, 0)));
}

TEST(BlobMessage, AcceptedRequestsAreTheirOwnEncoding) {
  Prng prng{11};
  std::size_t accepted = 0;
  for (std::uint64_t round = 0; round < 20'000; ++round) {
    std::vector<std::uint8_t> bytes = bytes_of(encode_blob_request(request_of(round, 4096)));
    bytes[prng.next() % bytes.size()] ^= static_cast<std::uint8_t>(1U << (prng.next() % 8));
    const auto request = decode_blob_request(buffer_of(bytes));
    if (!request) continue;
    ++accepted;
    EXPECT_EQ(bytes_of(encode_blob_request(*request)), bytes);
  }
  EXPECT_GT(accepted, 10'000U);
}

}  // namespace
}  // namespace tenzro::wire
