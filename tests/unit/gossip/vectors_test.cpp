// The golden bytes of proto/vectors/gossip_v1.json, both ways.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"

#include "lone_node.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

json vectors() {
  std::ifstream file(std::string(TENZRO_VECTORS) + "/gossip_v1.json");
  return json::parse(file);
}

Hash32 hash_of(const json& hex) {
  return hash_from_hex(hex.get<std::string>()).value();
}

template <typename Bytes>
std::string hex_of(const Bytes& bytes) {
  return to_hex(std::span<const std::uint8_t>(bytes));
}

wire::Bytes bytes_of(const json& hex) {
  const std::string text = hex;
  wire::Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// The key of the vectors.
Player signer() {
  return Player(hash_of(vectors().at("seed")));
}

wire::HeldModel model_of(const json& layers) {
  wire::HeldModel model;
  for (const json& layer : layers) {
    for (const json& e : layer.at("experts")) {
      const std::vector<std::uint8_t> types = e.at("types");
      model[layer.at("layer")][e.at("expert")] = {e.at("warm"), {types[0], types[1], types[2]}};
    }
  }
  return model;
}

wire::ProviderRecord record_of(const json& v) {
  wire::ProviderRecord record{.public_key = signer().key.public_key(),
                              .version = {v.at("incarnation"), v.at("sequence")},
                              .wall_ms = v.at("wall_ms"),
                              .ttl_s = v.at("ttl_s"),
                              .name = v.at("name"),
                              .software = v.at("version"),
                              .features = v.at("features"),
                              .addresses = v.at("addresses"),
                              .http_endpoint = v.at("http_endpoint"),
                              .roles = v.at("roles"),
                              .price_per_input_token = v.at("price_per_input_token"),
                              .minimum_price = v.at("minimum_price"),
                              .has_gpu = v.at("moe_gpu"),
                              .profiles = v.at("profiles")};
  for (const auto& [id, layers] : v.at("models").items()) record.models[id] = model_of(layers);
  record.manifest_root = hash_of(v.at("manifest_root"));
  return record;
}

void expect_sealed(std::string_view tag, const json& v, const wire::Bytes& body) {
  EXPECT_EQ(hex_of(body), v.at("body"));
  const wire::Bytes sealed = signer().seal(tag, body);
  EXPECT_EQ(hex_of(std::span(sealed).last(wire::kSignatureBytes)), v.at("signature"));
}

TEST(GossipVectors, KeyAndAddressAreThoseOfTheSeed) {
  EXPECT_EQ(hex_of(signer().key.public_key()), vectors().at("public_key"));
  EXPECT_EQ(hex_of(signer().key.address()), vectors().at("provider"));
}

TEST(GossipVectors, RecordHasTheseBytesAndIsReadFromThem) {
  const json v = vectors().at("record");
  const wire::ProviderRecord record = record_of(v);
  expect_sealed(wire::kRecordTag, v, wire::encode_record(record).value());
  const auto decoded = wire::decode_record(bytes_of(v.at("body")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message();
  EXPECT_EQ(*decoded, record);
}

TEST(GossipVectors, BeatHasTheseBytesAndIsReadFromThem) {
  const json v = vectors().at("beat");
  wire::Beat beat{
      .public_key = signer().key.public_key(),
      .version = {v.at("incarnation"), v.at("sequence")},
      .wall_ms = v.at("wall_ms"),
      .load = {v.at("in_flight"), v.at("queue_max"), v.at("committed_tps"), v.at("draining")},
      .is_leaving = v.at("leaving")};
  // The beat names the record above, as it is sealed.
  const json record = vectors().at("record");
  wire::Bytes sealed = bytes_of(record.at("body"));
  const wire::Bytes signature = bytes_of(record.at("signature"));
  sealed.insert(sealed.end(), signature.begin(), signature.end());
  const Hash32 digest = crypto::sha256(sealed);
  std::copy_n(digest.begin(), beat.record_digest.size(), beat.record_digest.begin());
  EXPECT_EQ(hex_of(beat.record_digest), v.at("record_digest"));
  expect_sealed(wire::kBeatTag, v, wire::encode_beat(beat));
  const auto decoded = wire::decode_beat(bytes_of(v.at("body")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message();
  EXPECT_EQ(*decoded, beat);
}

std::vector<wire::DigestEntry> entries_of(const json& list) {
  std::vector<wire::DigestEntry> entries;
  for (const json& entry : list) {
    wire::DigestEntry& out = entries.emplace_back();
    const wire::Bytes prefix = bytes_of(entry.at("prefix"));
    std::copy_n(prefix.begin(), out.prefix.size(), out.prefix.begin());
    out.version = entry.at("version");
  }
  return entries;
}

std::vector<wire::AddressPrefix> prefixes_of(const json& list) {
  std::vector<wire::AddressPrefix> prefixes;
  for (const json& hex : list) {
    const wire::Bytes prefix = bytes_of(hex);
    wire::AddressPrefix& copy = prefixes.emplace_back();
    std::copy_n(prefix.begin(), copy.size(), copy.begin());
  }
  return prefixes;
}

wire::GossipMessage message_of(const json& v) {
  wire::GossipMessage message{.announced = entries_of(v.at("announced")),
                              .wanted = prefixes_of(v.at("wanted")),
                              .records_wanted = prefixes_of(v.at("records_wanted")),
                              .link = static_cast<wire::Link>(v.at("link").get<int>()),
                              .prune = v.at("prune")};
  for (const json& hex : v.at("beats")) message.beats.push_back(bytes_of(hex));
  for (const json& hex : v.at("records")) message.records.push_back(bytes_of(hex));
  for (const json& hex : v.at("pages")) message.pages.push_back(bytes_of(hex));
  for (const json& hex : v.at("pages_wanted")) message.pages_wanted.push_back(hash_of(hex));
  if (!v.at("digest").is_null()) message.digest = entries_of(v.at("digest"));
  if (!v.at("probe").is_null()) message.probe = hash_of(v.at("probe"));
  message.error = v.at("error");
  return message;
}

TEST(GossipVectors, MessagesHaveTheseBytesAndAreReadFromThem) {
  const json messages = vectors().at("messages");
  for (const json& v : messages) {
    const wire::GossipMessage message = message_of(v);
    const BufferRef encoded = wire::encode_gossip(message);
    EXPECT_EQ(hex_of(as_u8(encoded.bytes())), v.at("bytes")) << v.at("about");
    const auto decoded = wire::decode_gossip(bytes_of(v.at("bytes")));
    ASSERT_TRUE(decoded.has_value()) << v.at("about") << decoded.error().message();
    EXPECT_EQ(*decoded, message) << v.at("about");
  }
}

}  // namespace
}  // namespace tenzro::testing
