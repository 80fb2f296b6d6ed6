// The reader and writer of gossip messages beside those that protoc makes of proto/gossip.proto.
#include <algorithm>

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/wire/gossip_message.hpp"

#include "gossip.pb.h"

namespace tenzro::wire {
namespace {

std::string text_of(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const std::vector<DigestEntry>& entries) {
  std::string text;
  for (const DigestEntry& entry : entries) {
    text.append(entry.prefix.begin(), entry.prefix.end());
    for (unsigned i = 0; i < 8; ++i) text.push_back(static_cast<char>(entry.version >> (8U * i)));
  }
  return text;
}

std::string text_of(const std::vector<AddressPrefix>& prefixes) {
  std::string text;
  for (const AddressPrefix& prefix : prefixes) text.append(prefix.begin(), prefix.end());
  return text;
}

/// The same message as the library has it.
proto::Gossip as_proto(const GossipMessage& message) {
  proto::Gossip out;
  for (const Bytes& beat : message.beats) out.add_beats(text_of(beat));
  for (const Bytes& record : message.records) out.add_records(text_of(record));
  out.set_announced(text_of(message.announced));
  if (message.digest) out.set_digest(text_of(*message.digest));
  out.set_wanted(text_of(message.wanted));
  out.set_link(static_cast<std::uint32_t>(message.link));
  out.set_prune(message.prune);
  if (message.probe) out.set_probe(message.probe->data(), message.probe->size());
  for (const Hash32& hash : message.pages_wanted) out.add_pages_wanted(hash.data(), hash.size());
  for (const Bytes& page : message.pages) out.add_pages(text_of(page));
  out.set_records_wanted(text_of(message.records_wanted));
  out.set_error(message.error);
  return out;
}

/// The message without the unknown fields that the library keeps with it.
proto::Gossip known_fields(const proto::Gossip& message) {
  proto::Gossip out;
  *out.mutable_beats() = message.beats();
  *out.mutable_records() = message.records();
  out.set_announced(message.announced());
  if (message.has_digest()) out.set_digest(message.digest());
  out.set_wanted(message.wanted());
  out.set_link(message.link());
  out.set_prune(message.prune());
  out.set_probe(message.probe());
  *out.mutable_pages_wanted() = message.pages_wanted();
  *out.mutable_pages() = message.pages();
  out.set_records_wanted(message.records_wanted());
  out.set_error(message.error());
  return out;
}

Bytes with_head(const std::string& body) {
  Bytes bytes(2 + body.size());
  bytes[0] = kGossipVersion;
  bytes[1] = kGossipFeatures;
  std::copy(body.begin(), body.end(), bytes.begin() + 2);
  return bytes;
}

Bytes random_bytes(Prng& prng, std::size_t size) {
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.next());
  return bytes;
}

template <class Array>
std::vector<Array> random_arrays(Prng& prng) {
  std::vector<Array> arrays(prng.next() % 4);
  for (Array& array : arrays) {
    const Bytes bytes = random_bytes(prng, array.size());
    std::copy(bytes.begin(), bytes.end(), array.begin());
  }
  return arrays;
}

std::vector<Bytes> random_items(Prng& prng) {
  std::vector<Bytes> items(prng.next() % 4);
  for (Bytes& item : items) item = random_bytes(prng, prng.next() % 200);
  return items;
}

std::vector<DigestEntry> random_entries(Prng& prng) {
  std::vector<DigestEntry> entries;
  for (const AddressPrefix& prefix : random_arrays<AddressPrefix>(prng))
    entries.push_back({prefix, prng.next()});
  return entries;
}

GossipMessage random_message(Prng& prng) {
  GossipMessage message;
  message.beats = random_items(prng);
  message.records = random_items(prng);
  message.announced = random_entries(prng);
  if (prng.next() % 2 == 0) message.digest = random_entries(prng);
  message.wanted = random_arrays<AddressPrefix>(prng);
  message.records_wanted = random_arrays<AddressPrefix>(prng);
  message.link = static_cast<Link>(prng.next() % 3);
  message.prune = prng.next() % 2 == 0;
  const auto probes = random_arrays<ProviderAddress>(prng);
  if (!probes.empty()) message.probe = probes[0];
  message.pages_wanted = random_arrays<Hash32>(prng);
  message.pages = random_items(prng);
  message.error = text_of(random_bytes(prng, prng.next() % 40));
  return message;
}

TEST(GossipProto, LibraryReadsWhatIsWrittenAndWritesWhatIsRead) {
  Prng prng(1);
  for (int round = 0; round < 500; ++round) {
    const GossipMessage message = random_message(prng);
    const proto::Gossip expected = as_proto(message);
    const BufferRef written = encode_gossip(message);
    const auto body = as_u8(written.bytes()).subspan(2);
    proto::Gossip read;
    ASSERT_TRUE(read.ParseFromArray(body.data(), static_cast<int>(body.size()))) << round;
    ASSERT_EQ(read.SerializeAsString(), expected.SerializeAsString()) << round;
    const auto decoded = decode_gossip(with_head(expected.SerializeAsString()));
    ASSERT_TRUE(decoded.has_value()) << round << ": " << decoded.error().message();
    ASSERT_EQ(*decoded, message) << round;
  }
}

TEST(GossipProto, LibraryReadsTheSameFromDamagedBytesThatAreAccepted) {
  Prng prng(2);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string body = as_proto(random_message(prng)).SerializeAsString();
    for (std::uint64_t flips = 1 + prng.next() % 3; flips > 0 && !body.empty(); --flips)
      body[prng.next() % body.size()] = static_cast<char>(prng.next());
    const auto decoded = decode_gossip(with_head(body));
    if (!decoded) continue;
    ++accepted;
    proto::Gossip read;
    ASSERT_TRUE(read.ParseFromString(body)) << round;
    ASSERT_EQ(known_fields(read).SerializeAsString(), as_proto(*decoded).SerializeAsString())
        << round;
  }
  EXPECT_GT(accepted, 2'000);
}

}  // namespace
}  // namespace tenzro::wire
