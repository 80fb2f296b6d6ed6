#include "tenzro/wire/gossip_message.hpp"

#include "tenzro/wire/beat.hpp"
#include "tenzro/wire/protocol.hpp"
#include "tenzro/wire/provider_record.hpp"

#include "gossip.pb.h"
#include "proto_bytes.hpp"

namespace tenzro::wire {
namespace {

constexpr std::size_t kHeadBytes = 2;
constexpr std::size_t kEntryBytes = 16;

tl::unexpected<Error> refuse(const char* why) {
  return fail(ErrorCode::invalid_params, "gossip", why);
}

std::string encode_entries(const std::vector<DigestEntry>& entries) {
  std::string text;
  text.reserve(entries.size() * kEntryBytes);
  for (const DigestEntry& entry : entries) {
    text.append(entry.prefix.begin(), entry.prefix.end());
    for (unsigned i = 0; i < 8; ++i)
      text.push_back(static_cast<char>(entry.version >> (8U * i) & 0xFFU));
  }
  return text;
}

bool decode_entries(const std::string& text, std::vector<DigestEntry>& entries) {
  if (text.size() % kEntryBytes != 0 || text.size() / kEntryBytes > kGossipEntriesMax) return false;
  entries.resize(text.size() / kEntryBytes);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const char* at = text.data() + i * kEntryBytes;
    std::copy(at, at + 8, entries[i].prefix.begin());
    entries[i].version = load_u64_le(at + 8);
  }
  return true;
}

std::string encode_prefixes(const std::vector<AddressPrefix>& prefixes) {
  std::string text;
  for (const AddressPrefix& prefix : prefixes) text.append(prefix.begin(), prefix.end());
  return text;
}

bool decode_prefixes(const std::string& text, std::vector<AddressPrefix>& prefixes) {
  constexpr std::size_t kBytes = std::tuple_size_v<AddressPrefix>;
  if (text.size() % kBytes != 0 || text.size() / kBytes > kGossipWantedMax) return false;
  prefixes.resize(text.size() / kBytes);
  for (std::size_t i = 0; i < prefixes.size(); ++i)
    std::copy_n(text.data() + i * kBytes, kBytes, prefixes[i].begin());
  return true;
}

template <typename Field>
bool take_all(const Field& from, std::size_t count_max, std::size_t bytes_max,
              std::vector<Bytes>& to) {
  if (static_cast<std::size_t>(from.size()) > count_max) return false;
  to.reserve(static_cast<std::size_t>(from.size()));
  for (const std::string& item : from) {
    if (item.size() > bytes_max) return false;
    to.emplace_back(item.begin(), item.end());
  }
  return true;
}

Status decode_lists(const proto::Gossip& in, GossipMessage& message) {
  if (!take_all(in.beats(), kGossipBeatsMax, kBeatBytesMax, message.beats))
    return refuse("beats: too many or too large");
  if (!take_all(in.records(), kGossipRecordsMax, kRecordBytesMax, message.records))
    return refuse("records: too many or too large");
  if (!take_all(in.pages(), kGossipPagesMax, kGossipMessageBytesMax, message.pages))
    return refuse("pages: too many");
  if (!decode_entries(in.announced(), message.announced)) return refuse("announced: wrong length");
  if (in.has_digest() && !decode_entries(in.digest(), message.digest.emplace()))
    return refuse("digest: wrong length");
  if (!decode_prefixes(in.wanted(), message.wanted) ||
      !decode_prefixes(in.records_wanted(), message.records_wanted))
    return refuse("wanted: wrong length");
  if (static_cast<std::size_t>(in.pages_wanted_size()) > kGossipPagesMax)
    return refuse("pages_wanted: too many");
  for (const std::string& hash : in.pages_wanted()) {
    if (!read_array(hash, message.pages_wanted.emplace_back()))
      return refuse("pages_wanted: must be 32 bytes each");
  }
  return {};
}

}  // namespace

AddressPrefix prefix_of(const ProviderAddress& address) {
  AddressPrefix prefix;
  std::copy_n(address.begin(), prefix.size(), prefix.begin());
  return prefix;
}

BufferRef encode_gossip(const GossipMessage& message) {
  proto::Gossip out;
  for (const Bytes& beat : message.beats) out.add_beats(to_text(beat));
  for (const Bytes& record : message.records) out.add_records(to_text(record));
  out.set_announced(encode_entries(message.announced));
  if (message.digest) out.set_digest(encode_entries(*message.digest));
  out.set_wanted(encode_prefixes(message.wanted));
  out.set_records_wanted(encode_prefixes(message.records_wanted));
  out.set_link(static_cast<std::uint32_t>(message.link));
  out.set_prune(message.prune);
  if (message.probe) out.set_probe(to_text(*message.probe));
  for (const Hash32& hash : message.pages_wanted) out.add_pages_wanted(to_text(hash));
  for (const Bytes& page : message.pages) out.add_pages(to_text(page));
  out.set_error(message.error.substr(0, kGossipErrorBytesMax));
  const std::size_t size = out.ByteSizeLong();
  BufferRef buffer = BufferRef::allocate(kHeadBytes + size);
  auto* bytes = static_cast<std::uint8_t*>(static_cast<void*>(buffer.mutable_bytes().data()));
  bytes[0] = kGossipVersion;
  bytes[1] = kGossipFeatures;
  out.SerializeWithCachedSizesToArray(bytes + kHeadBytes);
  return buffer;
}

Result<GossipMessage> decode_gossip(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kHeadBytes || bytes.size() > kGossipMessageBytesMax)
    return refuse("too short or too long");
  if (bytes[0] != kGossipVersion) {
    return fail(ErrorCode::forbidden, "gossip",
                "the peer speaks version " + std::to_string(bytes[0]) + ", this node version " +
                    std::to_string(kGossipVersion));
  }
  if (const unsigned missing = bytes[1] & ~unsigned{kGossipFeatures}; missing != 0) {
    return fail(ErrorCode::forbidden, "gossip",
                "the message needs features that this node lacks: " + std::to_string(missing));
  }
  proto::Gossip in;
  if (!parse_flat(in, bytes.subspan(kHeadBytes))) return refuse("cannot be read");
  GossipMessage message;
  if (auto status = decode_lists(in, message); !status) return fail(status.error());
  if (in.link() > static_cast<std::uint32_t>(Link::declined)) return refuse("link: unknown");
  message.link = static_cast<Link>(in.link());
  message.prune = in.prune();
  if (!in.probe().empty() && !read_array(in.probe(), message.probe.emplace()))
    return refuse("probe: must be 32 bytes");
  if (in.error().size() > kGossipErrorBytesMax) return refuse("error: too long");
  message.error = in.error();
  return message;
}

}  // namespace tenzro::wire
