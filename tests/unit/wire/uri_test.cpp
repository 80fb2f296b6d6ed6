#include "tenzro/wire/uri.hpp"

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"

namespace tenzro::wire {
namespace {

const std::string kHash = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
const std::string kPeer = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
const std::string kOther(64, '0');

TEST(BlobUri, BareFormRoundTrips) {
  const BlobHash hash = hash_from_hex(kHash).value();
  const std::string text = format_blob_uri(hash);
  EXPECT_EQ(text, "tenzro://blob/" + kHash);
  const Result<BlobUri> uri = parse_blob_uri(text);
  ASSERT_TRUE(uri.has_value());
  EXPECT_EQ(uri->hash, hash);
  EXPECT_EQ(uri->hint, std::nullopt);
}

TEST(BlobUri, HintIsAnEndpointId) {
  const Result<BlobUri> uri = parse_blob_uri("tenzro://blob/" + kHash + "?n=" + kPeer);
  ASSERT_TRUE(uri.has_value());
  EXPECT_EQ(to_hex(uri->hint.value()), kPeer);
}

class HashBearingUri : public testing::TestWithParam<std::string> {};

TEST_P(HashBearingUri, YieldsItsHash) {
  const Result<BlobUri> uri = parse_blob_uri(GetParam());
  ASSERT_TRUE(uri.has_value()) << uri.error().message();
  EXPECT_EQ(to_hex(uri->hash), kHash);
}

INSTANTIATE_TEST_SUITE_P(Kinds, HashBearingUri,
                         testing::Values("tenzro://model/qwen3-30b-a3b@" + kHash,
                                         "tenzro://model/a@b@" + kHash,
                                         "tenzro://gradient/run/7/" + kHash,
                                         "tenzro://shard/" + kOther + '/' + kHash,
                                         "tenzro://receipt/moe/" + kHash,
                                         "tenzro://receipt/moe/" + kHash + "?n=" + kPeer));
INSTANTIATE_TEST_SUITE_P(ExtraSegments, HashBearingUri,
                         testing::Values("tenzro://blob/" + kHash + '/',
                                         "tenzro://blob/" + kHash + "/more/segments",
                                         "tenzro://gradient/run/7/" + kHash + "/x"));

class WrongUri : public testing::TestWithParam<std::string> {};

TEST_P(WrongUri, IsRefusedAsAParameter) {
  const Result<BlobUri> uri = parse_blob_uri(GetParam());
  ASSERT_FALSE(uri.has_value());
  EXPECT_EQ(uri.error().code, ErrorCode::invalid_params);
  EXPECT_FALSE(uri.error().detail.empty());
}

INSTANTIATE_TEST_SUITE_P(Scheme, WrongUri,
                         testing::Values("", "tenzro:", "tenzro://", "http://blob/" + kHash,
                                         "TENZRO://blob/" + kHash, " tenzro://blob/" + kHash,
                                         "tenzro:/blob/" + kHash, kHash));
INSTANTIATE_TEST_SUITE_P(
    Hash, WrongUri,
    testing::Values("tenzro://blob", "tenzro://blob/", "tenzro://blob/" + kHash.substr(1),
                    "tenzro://blob/" + kHash + '0', "tenzro://blob/AF" + kHash.substr(2),
                    "tenzro://blob/g" + kHash.substr(1), "tenzro://blob//" + kHash,
                    "tenzro://blob/" + kHash + ' ', "tenzro://blob/" + kHash + '#',
                    "tenzro://blob/" + kHash + std::string(1, '\0')));
INSTANTIATE_TEST_SUITE_P(Query, WrongUri,
                         testing::Values("tenzro://blob/" + kHash + '?',
                                         "tenzro://blob/" + kHash + "?n",
                                         "tenzro://blob/" + kHash + "?n=",
                                         "tenzro://blob/" + kHash + "?n=" + kPeer.substr(1),
                                         "tenzro://blob/" + kHash + "?n=A" + kPeer.substr(1),
                                         "tenzro://blob/" + kHash + "?n=" + kPeer + "&n=" + kPeer,
                                         "tenzro://blob/" + kHash + "?m=" + kPeer));
INSTANTIATE_TEST_SUITE_P(
    Kinds, WrongUri,
    testing::Values("tenzro://unknown/" + kHash, "tenzro://model/" + kHash,
                    "tenzro://model/@" + kHash, "tenzro://model/id@", "tenzro://gradient/" + kHash,
                    "tenzro://gradient/run/" + kHash, "tenzro://gradient//7/" + kHash,
                    "tenzro://gradient/run//" + kHash, "tenzro://shard/" + kHash,
                    "tenzro://shard//" + kHash, "tenzro://receipt/" + kHash,
                    "tenzro://receipt//" + kHash));

TEST(BlobUri, EndlessTextIsRefusedAndNotEchoedWhole) {
  EXPECT_FALSE(parse_blob_uri("tenzro://blob/" + kHash + '/' + std::string(kUriBytesMax, 'x')));
  const Result<BlobUri> uri = parse_blob_uri(std::string(kUriBytesMax, '\n'));
  ASSERT_FALSE(uri.has_value());
  EXPECT_LT(uri.error().detail.size(), 2 * kEchoBytesMax + 100);
  EXPECT_EQ(uri.error().detail.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tenzro::wire
