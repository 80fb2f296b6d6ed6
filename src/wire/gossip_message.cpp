#include "tenzro/wire/gossip_message.hpp"

#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/beat.hpp"
#include "tenzro/wire/protocol.hpp"
#include "tenzro/wire/provider_record.hpp"

#include "proto_wire.hpp"

namespace tenzro::wire {
namespace {

constexpr std::size_t kHeadBytes = 2;
constexpr std::size_t kEntryBytes = 16;

/// Fields of proto/gossip.proto. Of one that stands twice the last counts; unknown ones, and known
/// ones of another wire type, are skipped.
constexpr std::uint32_t kBeatsField = 1;
constexpr std::uint32_t kRecordsField = 2;
constexpr std::uint32_t kAnnouncedField = 3;
constexpr std::uint32_t kDigestField = 4;
constexpr std::uint32_t kWantedField = 5;
constexpr std::uint32_t kLinkField = 6;
constexpr std::uint32_t kPruneField = 7;
constexpr std::uint32_t kProbeField = 8;
constexpr std::uint32_t kPagesWantedField = 9;
constexpr std::uint32_t kPagesField = 10;
constexpr std::uint32_t kRecordsWantedField = 11;
constexpr std::uint32_t kErrorField = 12;

tl::unexpected<Error> refuse(const char* why) {
  return fail(ErrorCode::invalid_params, "gossip", why);
}

std::vector<std::uint8_t> encode_entries(const std::vector<DigestEntry>& entries) {
  std::vector<std::uint8_t> bytes(entries.size() * kEntryBytes);
  auto* at = bytes.data();
  for (const DigestEntry& entry : entries) {
    at = std::copy(entry.prefix.begin(), entry.prefix.end(), at);
    for (unsigned i = 0; i < 8; ++i) *at++ = static_cast<std::uint8_t>(entry.version >> (8U * i));
  }
  return bytes;
}

bool decode_entries(std::span<const std::uint8_t> bytes, std::vector<DigestEntry>& entries) {
  if (bytes.size() % kEntryBytes != 0 || bytes.size() / kEntryBytes > kGossipEntriesMax)
    return false;
  entries.resize(bytes.size() / kEntryBytes);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint8_t* at = bytes.data() + i * kEntryBytes;
    std::copy(at, at + 8, entries[i].prefix.begin());
    entries[i].version = load_u64_le(at + 8);
  }
  return true;
}

std::vector<std::uint8_t> encode_prefixes(const std::vector<AddressPrefix>& prefixes) {
  std::vector<std::uint8_t> bytes;
  for (const AddressPrefix& prefix : prefixes)
    bytes.insert(bytes.end(), prefix.begin(), prefix.end());
  return bytes;
}

bool decode_prefixes(std::span<const std::uint8_t> bytes, std::vector<AddressPrefix>& prefixes) {
  constexpr std::size_t kBytes = std::tuple_size_v<AddressPrefix>;
  if (bytes.size() % kBytes != 0 || bytes.size() / kBytes > kGossipWantedMax) return false;
  prefixes.resize(bytes.size() / kBytes);
  for (std::size_t i = 0; i < prefixes.size(); ++i)
    std::copy_n(bytes.data() + i * kBytes, kBytes, prefixes[i].begin());
  return true;
}

/// One more of a repeated field.
bool take_item(std::span<const std::uint8_t> bytes, std::size_t count_max, std::size_t bytes_max,
               std::vector<Bytes>& to) {
  if (to.size() >= count_max || bytes.size() > bytes_max) return false;
  to.emplace_back(bytes.begin(), bytes.end());
  return true;
}

bool take_hash(std::span<const std::uint8_t> bytes, std::vector<Hash32>& to) {
  if (to.size() >= kGossipPagesMax || bytes.size() != sizeof(Hash32)) return false;
  std::copy(bytes.begin(), bytes.end(), to.emplace_back().begin());
  return true;
}

bool take_probe(std::span<const std::uint8_t> bytes, std::optional<ProviderAddress>& to) {
  to.reset();
  if (bytes.empty()) return true;
  if (bytes.size() != sizeof(ProviderAddress)) return false;
  std::copy(bytes.begin(), bytes.end(), to.emplace().begin());
  return true;
}

bool take_error(std::span<const std::uint8_t> bytes, std::string& to) {
  if (bytes.size() > kGossipErrorBytesMax) return false;
  to.assign(bytes.begin(), bytes.end());
  return true;
}

/// What is wrong with it; null: nothing.
const char* take_bytes(std::uint32_t number, std::span<const std::uint8_t> bytes,
                       GossipMessage& to) {
  const auto unless = [](bool is_good, const char* why) { return is_good ? nullptr : why; };
  switch (number) {
    case kBeatsField:
      return unless(take_item(bytes, kGossipBeatsMax, kBeatBytesMax, to.beats),
                    "beats: too many or too large");
    case kRecordsField:
      return unless(take_item(bytes, kGossipRecordsMax, kRecordBytesMax, to.records),
                    "records: too many or too large");
    case kAnnouncedField:
      return unless(decode_entries(bytes, to.announced), "announced: wrong length");
    case kDigestField:
      return unless(decode_entries(bytes, to.digest.emplace()), "digest: wrong length");
    case kWantedField:
      return unless(decode_prefixes(bytes, to.wanted), "wanted: wrong length");
    case kRecordsWantedField:
      return unless(decode_prefixes(bytes, to.records_wanted), "wanted: wrong length");
    case kProbeField:
      return unless(take_probe(bytes, to.probe), "probe: must be 32 bytes");
    case kPagesWantedField:
      return unless(take_hash(bytes, to.pages_wanted),
                    "pages_wanted: too many, or not 32 bytes each");
    case kPagesField:
      return unless(take_item(bytes, kGossipPagesMax, kGossipMessageBytesMax, to.pages),
                    "pages: too many");
    case kErrorField:
      return unless(take_error(bytes, to.error), "error: too long");
    default:
      return nullptr;
  }
}

const char* take_number(std::uint32_t number, std::uint64_t value, GossipMessage& to) {
  if (number == kLinkField && value > static_cast<std::uint64_t>(Link::declined))
    return "link: unknown";
  if (number == kLinkField) to.link = static_cast<Link>(value);
  if (number == kPruneField) to.prune = value != 0;
  return nullptr;
}

std::size_t size_of(const std::vector<Bytes>& items) {
  constexpr std::size_t kFieldBytes = 6;  // a tag and a length
  std::size_t size = 0;
  for (const Bytes& item : items) size += kFieldBytes + item.size();
  return size;
}

void write_all(ProtoWriter& out, std::uint32_t number, const std::vector<Bytes>& items) {
  for (const Bytes& item : items) out.bytes(number, item);
}

void write_unless_empty(ProtoWriter& out, std::uint32_t number,
                        std::span<const std::uint8_t> bytes) {
  if (!bytes.empty()) out.bytes(number, bytes);
}

}  // namespace

AddressPrefix prefix_of(const ProviderAddress& address) {
  AddressPrefix prefix;
  std::copy_n(address.begin(), prefix.size(), prefix.begin());
  return prefix;
}

BufferRef encode_gossip(const GossipMessage& message) {
  ProtoWriter out;
  out.reserve(size_of(message.beats) + size_of(message.records) + size_of(message.pages) +
              kEntryBytes * (message.announced.size() + 8));
  write_all(out, kBeatsField, message.beats);
  write_all(out, kRecordsField, message.records);
  write_unless_empty(out, kAnnouncedField, encode_entries(message.announced));
  if (message.digest) out.bytes(kDigestField, encode_entries(*message.digest));
  write_unless_empty(out, kWantedField, encode_prefixes(message.wanted));
  out.varint(kLinkField, static_cast<std::uint64_t>(message.link));
  out.varint(kPruneField, message.prune ? 1 : 0);
  if (message.probe) out.bytes(kProbeField, *message.probe);
  for (const Hash32& hash : message.pages_wanted) out.bytes(kPagesWantedField, hash);
  write_all(out, kPagesField, message.pages);
  write_unless_empty(out, kRecordsWantedField, encode_prefixes(message.records_wanted));
  const std::string_view error = std::string_view(message.error).substr(0, kGossipErrorBytesMax);
  if (!error.empty()) out.text(kErrorField, error);
  BufferRef buffer = BufferRef::allocate(kHeadBytes + out.message().size());
  auto* bytes = static_cast<std::uint8_t*>(static_cast<void*>(buffer.mutable_bytes().data()));
  bytes[0] = kGossipVersion;
  bytes[1] = kGossipFeatures;
  std::copy(out.message().begin(), out.message().end(), bytes + kHeadBytes);
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
  ProtoReader reader(bytes.subspan(kHeadBytes));
  GossipMessage message;
  while (const auto field = reader.next()) {
    const char* wrong = nullptr;
    if (field->type == kProtoDelimited) wrong = take_bytes(field->number, field->bytes, message);
    if (field->type == kProtoVarint) wrong = take_number(field->number, field->varint, message);
    if (wrong != nullptr) return refuse(wrong);
  }
  if (reader.failed()) return refuse("cannot be read");
  return message;
}

}  // namespace tenzro::wire
