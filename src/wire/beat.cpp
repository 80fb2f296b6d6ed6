#include "tenzro/wire/beat.hpp"

#include "proto_bytes.hpp"
#include "record.pb.h"

namespace tenzro::wire {
namespace {

constexpr std::uint32_t kDraining = 1;
constexpr std::uint32_t kLeaving = 2;

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
  proto::Beat in;
  if (!parse_flat(in, body)) return refuse("cannot be read");
  Beat beat;
  if (!read_array(in.public_key(), beat.public_key)) return refuse("public_key must be 32 bytes");
  if (!read_array(in.record_digest(), beat.record_digest))
    return refuse("record_digest must be 16 bytes");
  if (in.incarnation() > Version::kIncarnationMax || in.sequence() > Version::kSequenceMax)
    return refuse("version out of range");
  beat.version = {in.incarnation(), in.sequence()};
  beat.wall_ms = in.wall_ms();
  beat.load = {in.in_flight(), in.queue_max(), in.committed_tps(), (in.flags() & kDraining) != 0};
  beat.is_leaving = (in.flags() & kLeaving) != 0;
  return beat;
}

}  // namespace tenzro::wire
