#pragma once
/// \file
/// What a UDP payload claims to be, before any connection is asked: pure, total, allocation-free.
///
/// Nothing is believed beyond what the first bytes say; a payload may claim any connection id.
#include <cstdint>
#include <optional>
#include <span>

#include <ngtcp2/ngtcp2.h>

namespace tenzro::net {

/// Every connection id that we give away has this length.
inline constexpr std::size_t kConnectionIdBytes = 16;
/// RFC 9000, 14.1: smaller datagrams never begin a connection.
inline constexpr std::size_t kFirstDatagramBytesMin = 1200;

enum class DatagramKind : std::uint8_t {
  packet,           ///< for the connection that `destination` names, or the first of a new one
  unknown_version,  ///< answered with the versions we speak, if it is long enough
};

struct DatagramHead {
  DatagramKind kind = DatagramKind::packet;
  bool is_long = false;
  std::uint32_t version = 0;
  /// At most 20 bytes where kind is packet; else up to 255. They point into the payload.
  std::span<const std::uint8_t> destination;
  std::span<const std::uint8_t> source;
};

/// None where it cannot be QUIC.
[[nodiscard]] std::optional<DatagramHead> read_head(std::span<const std::uint8_t> payload);

/// A connection id out of at most 20 bytes.
[[nodiscard]] ngtcp2_cid connection_id_of(std::span<const std::uint8_t> bytes);

}  // namespace tenzro::net
