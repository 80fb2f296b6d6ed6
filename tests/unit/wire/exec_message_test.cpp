// Messages of tenzro/exec/1: round trips, exact bytes, and every refusal of the decoder.
#include "tenzro/wire/exec_message.hpp"

#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/wire/moe_frame.hpp"
#include "tenzro/wire/protocol.hpp"

#include "support/random_expert.hpp"

namespace tenzro::wire {
namespace {

using testing::joined;

ExecRequest sample(bool is_q8 = false) {
  Prng prng(4);
  ExecRequest request{.layer = {"qwen3-30b-a3b", 7},
                      .profile = compute::Profile::exact,
                      .is_q8 = is_q8,
                      .width = 32,
                      .nonce = {1, 2, 3},
                      .budget_ms = 900,
                      .tokens = {0, 3, 200, 70000},
                      .batches = {{5, {0, 1}, BlobHash{9}}, {130, {3}, std::nullopt}}};
  const std::vector<std::byte> blocks(4 * 34, std::byte{1});
  request.rows = is_q8 ? BufferRef::copy_of(blocks) : testing::random_rows(prng, 4, 32);
  return request;
}

BufferRef bytes_of(const ExecRequest& request) {
  const auto parts = encode_exec_request(request);
  EXPECT_TRUE(parts) << parts.error().message();
  return parts ? joined(*parts) : BufferRef{};
}

void expect_equal(const ExecRequest& a, const ExecRequest& b) {
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.profile, b.profile);
  EXPECT_EQ(a.is_q8, b.is_q8);
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.nonce, b.nonce);
  EXPECT_EQ(a.budget_ms, b.budget_ms);
  EXPECT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.batches.size(), b.batches.size());
  for (std::size_t i = 0; i < a.batches.size(); ++i) {
    EXPECT_EQ(a.batches[i].expert, b.batches[i].expert);
    EXPECT_EQ(a.batches[i].rows, b.batches[i].rows);
    EXPECT_EQ(a.batches[i].blob, b.batches[i].blob);
  }
  EXPECT_EQ(a.rows.text(), b.rows.text());
}

TEST(ExecMessage, RequestComesBackAndItsRowsAreAlignedSlices) {
  for (const bool is_q8 : {false, true}) {
    for (const auto profile : {compute::Profile::exact, compute::Profile::fast}) {
      ExecRequest request = sample(is_q8);
      request.profile = profile;
      const BufferRef message = bytes_of(request);
      const auto decoded = decode_exec_request(message);
      ASSERT_TRUE(decoded) << decoded.error().message();
      expect_equal(request, *decoded);
      const std::size_t offset =
          static_cast<std::size_t>(decoded->rows.bytes().data() - message.bytes().data());
      EXPECT_EQ(offset % kExecAlignment, 0U);
      EXPECT_EQ(offset + decoded->rows.size(), message.size()) << "a slice, not a copy";
    }
  }
}

TEST(ExecMessage, MessageAtAnOddAddressIsReadAllTheSame) {
  const BufferRef message = bytes_of(sample());
  const BufferRef shifted = joined({BufferRef::copy_of("x"), message});
  const auto decoded = decode_exec_request(shifted.slice(1, message.size()));
  ASSERT_TRUE(decoded);
  expect_equal(sample(), *decoded);
}

TEST(ExecMessage, HeaderIsProtobufAsTheProtoFileSays) {
  ExecRequest request = sample();
  request.layer.model = "m";
  request.tokens = {1};
  request.batches = {{3, {0}, std::nullopt}};
  request.rows = request.rows.slice(0, 128);
  const BufferRef message = bytes_of(request);
  const std::vector<std::uint8_t> expected{42,   0,    0,    0,  // length of the header
                                           0x08, 0x01,           // version
                                           0x1A, 0x01, 'm',      // model
                                           0x20, 0x07,           // layer
                                           0x28, 0x01,           // profile; carrier 0 is left out
                                           0x38, 0x20,           // width
                                           0x42, 0x10, 1,    2,    3,    0,    0,
                                           0,    0,    0,    0,    0,    0,            // nonce
                                           0,    0,    0,    0,    0,                  //
                                           0x48, 0x84, 0x07,                           // budget
                                           0x52, 0x01, 0x01,                           // tokens
                                           0x5A, 0x05, 0x08, 0x03, 0x12, 0x01, 0x00};  // an expert
  std::vector<std::uint8_t> head(expected.size());
  std::memcpy(head.data(), message.bytes().data(), head.size());
  EXPECT_EQ(head, expected);
}

TEST(ExecMessage, RequestsThatBreakARuleAreNeitherMadeNorRead) {
  const std::vector<std::pair<const char*, std::function<void(ExecRequest&)>>> bends{
      {"model", [](auto& r) { r.layer.model.clear(); }},
      {"model", [](auto& r) { r.layer.model.assign(257, 'm'); }},
      {"model", [](auto& r) { r.layer.model = "\xFF"; }},
      {"control", [](auto& r) { r.layer.model = "a\nb"; }},
      {"width", [](auto& r) { r.width = 0; }},
      {"width", [](auto& r) { r.width = kExecWidthMax + 1; }},
      {"budget_ms", [](auto& r) { r.budget_ms = 0; }},
      {"budget_ms", [](auto& r) { r.budget_ms = kExecBudgetMsMax + 1; }},
      {"tokens", [](auto& r) { r.tokens.clear(); }},
      {"tokens must ascend", [](auto& r) { r.tokens[1] = 0; }},
      {"too many tokens", [](auto& r) { r.tokens.resize(kExecTokensMax + 1); }},
      {"no experts", [](auto& r) { r.batches.clear(); }},
      {"too many experts", [](auto& r) { r.batches.resize(kExecExpertsMax + 1); }},
      {"experts must ascend", [](auto& r) { r.batches[1].expert = 5; }},
      {"without rows", [](auto& r) { r.batches[0].rows.clear(); }},
      {"rows of an expert",
       [](auto& r) {
         r.batches[0].rows = {1, 1};
       }},
      {"rows of an expert",
       [](auto& r) {
         r.batches[0].rows = {2, 1};
       }},
      {"beyond the tokens", [](auto& r) { r.batches[0].rows = {4}; }},
      {"rows of 508", [](auto& r) { r.rows = r.rows.slice(0, 508); }},
      {"multiple of 32", [](auto& r) { r.is_q8 = true, r.width = 33; }}};
  for (const auto& [text, bend] : bends) {
    ExecRequest request = sample();
    bend(request);
    const auto parts = encode_exec_request(request);
    ASSERT_FALSE(parts) << text;
    EXPECT_EQ(parts.error().code, ErrorCode::invalid_params);
    EXPECT_THAT(parts.error().message(), ::testing::HasSubstr(text));
  }
}

TEST(ExecMessage, ReplyThatWouldNotFitIsRefusedWithTheRequest) {
  ExecRequest request = sample();
  request.width = kExecWidthMax;
  request.batches[0].rows = {0, 1, 2, 3};
  request.tokens.resize(40);
  for (std::uint32_t i = 0; i < 40; ++i) request.tokens[i] = i;
  request.batches[1].rows = request.tokens;
  const auto parts = encode_exec_request(request);
  ASSERT_FALSE(parts);
  EXPECT_THAT(parts.error().message(), ::testing::HasSubstr("the reply would take"));
}

TEST(ExecMessage, EveryCutAndEveryExtraByteIsRefused) {
  const BufferRef message = bytes_of(sample());
  for (std::size_t size = 0; size < message.size(); ++size) {
    EXPECT_FALSE(decode_exec_request(BufferRef::copy_of(message.bytes().first(size)))) << size;
  }
  EXPECT_FALSE(decode_exec_request(joined({message, BufferRef::copy_of("1234")})));
}

/// A message whose header is these bytes.
BufferRef framed(std::vector<std::uint8_t> header, const BufferRef& rows = {}) {
  const std::size_t length = header.size();
  header.insert(header.begin(), {static_cast<std::uint8_t>(length), 0, 0, 0});
  header.resize((header.size() + 63) / 64 * 64);
  return joined({BufferRef::copy_of(std::as_bytes(std::span(header))), rows});
}

TEST(ExecMessage, OtherVersionsAndNeededFeaturesAreNamed) {
  const auto refusal = [](std::vector<std::uint8_t> header) {
    return decode_exec_request(framed(std::move(header))).error().message();
  };
  EXPECT_EQ(refusal({0x08, 0x02}), "this node speaks tenzro/exec version 1, not 2");
  EXPECT_EQ(refusal({}), "this node speaks tenzro/exec version 1, not 0");
  EXPECT_EQ(refusal({0x08, 0x01, 0x10, 0x05}),
            "the message needs features that this node lacks: 5");
}

TEST(ExecMessage, MalformedHeadersAreRefused) {
  const std::vector<std::vector<std::uint8_t>> headers{
      {0x08, 0x01, 0x08, 0x01},        // version twice
      {0x08, 0x01, 0x18, 0x01},        // model as a number
      {0x08, 0x01, 0x1A, 0x7F},        // longer than the header
      {0x08, 0x01, 0x28, 0x02},        // no such profile
      {0x08, 0x01, 0x30, 0x02},        // no such carrier
      {0x08, 0x01, 0x42, 0x01, 0x00},  // short nonce
      {0x08, 0x01, 0x52, 0x01, 0x80},  // tokens end within a value
      {0x08, 0x01, 0x0B},              // a group
      {0x08, 0x01, 0x00},              // field 0
      {0x08, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F},  // beyond 64 bits
      {0x08, 0x01, 0x5A, 0x02, 0x08, 0x80}};  // expert ends within a value
  for (std::size_t i = 0; i < headers.size(); ++i) {
    EXPECT_FALSE(decode_exec_request(framed(headers[i]))) << i;
  }
}

TEST(ExecMessage, UnknownFieldsAreIgnored) {
  const auto parts = encode_exec_request(sample());
  ASSERT_TRUE(parts);
  const auto head = parts->front().bytes();
  const auto length = static_cast<std::size_t>(head[0]);
  std::vector<std::uint8_t> header(length);
  std::memcpy(header.data(), head.data() + 4, length);
  header.insert(header.end(), {0xA0, 0x06, 0x01, 0x6A, 0x02, 'h', 'i'});
  const auto decoded = decode_exec_request(framed(header, parts->back()));
  ASSERT_TRUE(decoded) << decoded.error().message();
  expect_equal(sample(), *decoded);
}

ExecReply sample_reply() {
  Prng prng(8);
  ExecReply reply{.profile = compute::Profile::fast, .key = {1}, .signature = {2}};
  reply.receipts = {{.expert = 5,
                     .rows = 2,
                     .input_hash = {1},
                     .commitment = {2},
                     .rows_hash = {3},
                     .blob = {4},
                     .gate_type = kAbsentType,
                     .up_type = 12,
                     .down_type = 14},
                    {.expert = 130, .rows = 1}};
  reply.rows = {testing::random_rows(prng, 2, 32), testing::random_rows(prng, 1, 32)};
  return reply;
}

TEST(ExecMessage, ReplyComesBack) {
  const ExecReply reply = sample_reply();
  const auto parts = encode_exec_reply(reply);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[1].bytes().data(), reply.rows[0].bytes().data()) << "not copied";
  const auto decoded = decode_exec_reply(joined(parts), 32);
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(decoded->status, ExecStatus::served);
  EXPECT_EQ(decoded->profile, reply.profile);
  EXPECT_EQ(decoded->receipts, reply.receipts);
  EXPECT_EQ(decoded->key, reply.key);
  EXPECT_EQ(decoded->signature, reply.signature);
  ASSERT_EQ(decoded->rows.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(decoded->rows[i].text(), reply.rows[i].text());
}

TEST(ExecMessage, RefusalsComeBack) {
  for (const auto failure : {ExecFailure::bad_request, ExecFailure::not_possible,
                             ExecFailure::execution, ExecFailure::not_allowed}) {
    const auto decoded = decode_exec_reply(
        joined(
            encode_exec_reply({.status = ExecStatus::failed, .failure = failure, .text = "why"})),
        32);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->status, ExecStatus::failed);
    EXPECT_EQ(decoded->failure, failure);
    EXPECT_EQ(decoded->text, "why");
  }
  const auto busy = decode_exec_reply(
      joined(encode_exec_reply(
          {.status = ExecStatus::busy, .retry_after_ms = 50, .text = std::string(5000, 'x')})),
      32);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->retry_after_ms, 50U);
  EXPECT_EQ(busy->text.size(), kExecTextBytesMax);
}

TEST(ExecMessage, RepliesCutLengthenedOrOfAnotherWidthAreRefused) {
  const BufferRef message = joined(encode_exec_reply(sample_reply()));
  for (std::size_t size = 0; size < message.size(); ++size) {
    EXPECT_FALSE(decode_exec_reply(BufferRef::copy_of(message.bytes().first(size)), 32)) << size;
  }
  EXPECT_FALSE(decode_exec_reply(joined({message, BufferRef::copy_of("1234")}), 32));
  EXPECT_FALSE(decode_exec_reply(message, 31));
}

TEST(MoeFrame, BodyComesBackAndNothingElseIsAFrame) {
  const BufferRef frame = joined(*make_moe_frame(BufferRef::copy_of("{}")));
  EXPECT_EQ(frame.size(), 6U);
  EXPECT_EQ(moe_frame_body(frame).value(), "{}");
  EXPECT_FALSE(moe_frame_body(frame.slice(0, 5)));
  EXPECT_FALSE(moe_frame_body(joined({frame, BufferRef::copy_of("x")})));
  EXPECT_FALSE(moe_frame_body(BufferRef::copy_of("abc")));
  EXPECT_FALSE(moe_frame_body(BufferRef::copy_of("\xFF\xFF\xFF\xFF{}")));
  EXPECT_FALSE(make_moe_frame(BufferRef::allocate(kMoeFrameBytesMax + 1)));
}

}  // namespace
}  // namespace tenzro::wire
