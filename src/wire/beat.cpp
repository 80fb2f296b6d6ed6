#include "tenzro/wire/beat.hpp"

#include "proto_bytes.hpp"
#include "proto_wire.hpp"
#include "record.pb.h"

namespace tenzro::wire {
namespace {

constexpr std::uint32_t kDraining = 1;
constexpr std::uint32_t kLeaving = 2;

/// Fields of proto/record.proto that hold bytes.
constexpr std::uint32_t kPublicKey = 1;
constexpr std::uint32_t kRecordDigest = 5;

/// False where the length differs.
template <std::size_t N>
bool take_array(const ProtoField& field, std::array<std::uint8_t, N>& to) {
  if (field.bytes.size() != N) return false;
  std::copy(field.bytes.begin(), field.bytes.end(), to.begin());
  return true;
}

/// False where a version is out of range.
bool take_number(const ProtoField& field, Beat& beat) {
  const auto low = static_cast<std::uint32_t>(field.varint);
  switch (field.number) {
    case 2:
      beat.version.incarnation = field.varint;
      return field.varint <= Version::kIncarnationMax;
    case 3:
      beat.version.sequence = low;
      return field.varint <= Version::kSequenceMax;
    case 4:
      beat.wall_ms = field.varint;
      return true;
    case 6:
      beat.load.in_flight = low;
      return true;
    case 7:
      beat.load.queue_max = low;
      return true;
    case 8:
      beat.load.committed_tps = low;
      return true;
    case 9:
      beat.load.is_draining = (low & kDraining) != 0;
      beat.is_leaving = (low & kLeaving) != 0;
      return true;
    default:
      return true;
  }
}

}  // namespace

std::vector<std::uint8_t> encode_beat(const Beat& beat) {
  proto::Beat out;
  out.set_public_key(to_text(beat.public_key));
  out.set_incarnation(beat.version.incarnation);
  out.set_sequence(beat.version.sequence);
  out.set_wall_ms(beat.wall_ms);
  out.set_record_digest(to_text(beat.record_digest));
  out.set_in_flight(beat.load.in_flight);
  out.set_queue_max(beat.load.queue_max);
  out.set_committed_tps(beat.load.committed_tps);
  out.set_flags((beat.load.is_draining ? kDraining : 0U) | (beat.is_leaving ? kLeaving : 0U));
  return serialize(out);
}

Result<Beat> decode_beat(std::span<const std::uint8_t> body) {
  const auto refuse = [](const char* why) { return fail(ErrorCode::invalid_params, "beat", why); };
  if (body.size() > kBeatBytesMax - kSignatureBytes) return refuse("too large");
  Beat beat;
  bool has_key = false;
  bool has_digest = false;
  bool is_in_range = true;
  ProtoReader reader(body);
  while (const auto field = reader.next()) {
    if (field->type == kProtoVarint) is_in_range = take_number(*field, beat) && is_in_range;
    if (field->type != kProtoDelimited) continue;
    if (field->number == kPublicKey) has_key = take_array(*field, beat.public_key);
    if (field->number == kRecordDigest) has_digest = take_array(*field, beat.record_digest);
  }
  if (reader.failed()) return refuse("cannot be read");
  if (!has_key) return refuse("public_key must be 32 bytes");
  if (!has_digest) return refuse("record_digest must be 16 bytes");
  if (!is_in_range) return refuse("version out of range");
  return beat;
}

}  // namespace tenzro::wire
