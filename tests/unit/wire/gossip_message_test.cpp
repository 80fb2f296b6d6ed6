#include "tenzro/wire/gossip_message.hpp"

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::wire {
namespace {

GossipMessage full_message() {
  GossipMessage message;
  message.beats = {{1, 2, 3}, {4}};
  message.records = {Bytes(5000, 6)};
  message.announced = {{{1, 2, 3, 4, 5, 6, 7, 8}, 0xFFFF'FFFF'FFFF'FFFF}};
  message.digest = std::vector<DigestEntry>{{{8}, 1}, {{9}, 2}};
  message.wanted = {{1}, {2}};
  message.records_wanted = {{3}};
  message.link = Link::declined;
  message.prune = true;
  message.probe.emplace().fill(5);
  message.pages_wanted = {Hash32{1}, Hash32{2}};
  message.pages = {Bytes(100, 7)};
  message.error = "why";
  return message;
}

std::vector<std::uint8_t> bytes_of(const GossipMessage& message) {
  const BufferRef buffer = encode_gossip(message);
  const auto bytes = as_u8(buffer.bytes());
  return {bytes.begin(), bytes.end()};
}

TEST(GossipMessage, IsReadBackAsWritten) {
  for (const GossipMessage& message : {GossipMessage{}, full_message()}) {
    const auto decoded = decode_gossip(bytes_of(message));
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message();
    EXPECT_EQ(*decoded, message);
  }
}

TEST(GossipMessage, WithoutADigestDiffersFromOneWithAnEmptyDigest) {
  GossipMessage message;
  message.digest.emplace();
  EXPECT_TRUE(decode_gossip(bytes_of(message))->digest.has_value());
  EXPECT_FALSE(decode_gossip(bytes_of({}))->digest.has_value());
}

TEST(GossipMessage, OfAnotherVersionIsRefusedWithASentence) {
  auto bytes = bytes_of(full_message());
  bytes[0] = 2;
  const auto decoded = decode_gossip(bytes);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().code, ErrorCode::forbidden);
  EXPECT_NE(decoded.error().detail.find("version 2"), std::string::npos);
}

TEST(GossipMessage, ThatNeedsUnknownFeaturesIsRefusedWithASentence) {
  auto bytes = bytes_of(full_message());
  bytes[1] = 5;
  const auto decoded = decode_gossip(bytes);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().code, ErrorCode::forbidden);
  EXPECT_EQ(decoded.error().detail, "the message needs features that this node lacks: 5");
}

TEST(GossipMessage, SentenceIsCutAndALongerOneRefused) {
  GossipMessage message;
  message.error = std::string(2 * kGossipErrorBytesMax, 'x');
  EXPECT_EQ(decode_gossip(bytes_of(message))->error, std::string(kGossipErrorBytesMax, 'x'));
  // Field 12, 513 bytes.
  Bytes bytes{kGossipVersion, kGossipFeatures, 0x62, 0x81, 0x04};
  bytes.resize(bytes.size() + kGossipErrorBytesMax + 1, 'x');
  EXPECT_FALSE(decode_gossip(bytes).has_value());
}

Bytes with_fields(std::initializer_list<std::uint8_t> fields) {
  Bytes bytes{kGossipVersion, kGossipFeatures};
  for (const std::uint8_t byte : fields) bytes.push_back(byte);
  return bytes;
}

TEST(GossipMessage, OfAFieldThatStandsTwiceTheLastCounts) {
  // Fields 6 (link), 6, 5 (wanted), 5.
  const auto decoded = decode_gossip(with_fields(
      {0x30, 1, 0x30, 2, 0x2a, 8, 1, 1, 1, 1, 1, 1, 1, 1, 0x2a, 8, 2, 2, 2, 2, 2, 2, 2, 2}));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message();
  EXPECT_EQ(decoded->link, Link::declined);
  EXPECT_EQ(decoded->wanted, (std::vector<AddressPrefix>{{2, 2, 2, 2, 2, 2, 2, 2}}));
}

TEST(GossipMessage, UnknownFieldsAndThoseOfAnotherWireTypeAreSkipped) {
  // Fields 13 (a number), 14 (bytes), 6 (link) as bytes, 1 (beats) as a number.
  const auto decoded = decode_gossip(with_fields({0x68, 9, 0x72, 1, 7, 0x32, 1, 7, 0x08, 3}));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message();
  EXPECT_EQ(*decoded, GossipMessage{});
}

TEST(GossipMessage, WithFieldsOutOfRangeIsRefused) {
  EXPECT_FALSE(decode_gossip(with_fields({0x30, 3})).has_value());           // link
  EXPECT_FALSE(decode_gossip(with_fields({0x42, 3, 1, 2, 3})).has_value());  // probe
  EXPECT_FALSE(decode_gossip(with_fields({0x4a, 2, 1, 2})).has_value());     // pages_wanted
  EXPECT_FALSE(decode_gossip(with_fields({0x1a, 3, 1, 2, 3})).has_value());  // announced
  EXPECT_FALSE(decode_gossip(with_fields({0x5a, 3, 1, 2, 3})).has_value());  // records_wanted
  EXPECT_FALSE(decode_gossip(with_fields({0x0b, 0x0c})).has_value());        // a group
}

TEST(GossipMessage, TooLongTooShortOrCutIsRefused) {
  EXPECT_FALSE(decode_gossip({}).has_value());
  EXPECT_FALSE(decode_gossip(Bytes{kGossipVersion}).has_value());
  EXPECT_FALSE(decode_gossip(Bytes(kGossipMessageBytesMax + 1, kGossipVersion)).has_value());
  const auto bytes = bytes_of(full_message());
  for (std::size_t size = 2; size < bytes.size(); ++size) {
    const auto decoded = decode_gossip(std::span(bytes).first(size));
    if (decoded) {
      EXPECT_NE(*decoded, full_message()) << size;
    }
  }
}

TEST(GossipMessage, WithMoreItemsThanItMayHoldIsRefused) {
  GossipMessage message;
  message.beats.assign(kGossipBeatsMax + 1, Bytes{1});
  EXPECT_FALSE(decode_gossip(bytes_of(message)).has_value());
  message = {};
  message.beats.assign(1, Bytes(257, 1));
  EXPECT_FALSE(decode_gossip(bytes_of(message)).has_value());
  message = {};
  message.wanted.resize(kGossipWantedMax + 1);
  EXPECT_FALSE(decode_gossip(bytes_of(message)).has_value());
  message = {};
  message.digest.emplace(kGossipEntriesMax + 1);
  EXPECT_FALSE(decode_gossip(bytes_of(message)).has_value());
  message = {};
  message.pages_wanted.resize(kGossipPagesMax + 1);
  EXPECT_FALSE(decode_gossip(bytes_of(message)).has_value());
}

}  // namespace
}  // namespace tenzro::wire
