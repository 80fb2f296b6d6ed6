#pragma once
/// \file
/// Beats: that a node lives, how busy it is, and which record is its newest (proto/record.proto).
///
/// Sealed as records are; about 150 bytes. The record's digest is the first 16 bytes of SHA-256 of
/// the sealed record. Pure. Thread: any.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/wire/provider_record.hpp"

namespace tenzro::wire {

inline constexpr std::size_t kBeatBytesMax = 256;  ///< sealed
inline constexpr std::string_view kBeatTag = "tenzro/beat/1";

using RecordDigest = std::array<std::uint8_t, 16>;

struct Load {
  std::uint32_t in_flight = 0;
  std::uint32_t queue_max = 0;
  /// Measured tokens a second.
  std::uint32_t committed_tps = 0;
  bool is_draining = false;
  friend bool operator==(const Load&, const Load&) = default;
};

struct Beat {
  EndpointId public_key{};
  Version version;
  std::uint64_t wall_ms = 0;
  RecordDigest record_digest{};
  Load load;
  /// Goodbye: the node will not be back in this incarnation.
  bool is_leaving = false;
  friend bool operator==(const Beat&, const Beat&) = default;
};

/// The bytes to sign.
[[nodiscard]] std::vector<std::uint8_t> encode_beat(const Beat& beat);
/// Error: invalid_params.
[[nodiscard]] Result<Beat> decode_beat(std::span<const std::uint8_t> body);

}  // namespace tenzro::wire
