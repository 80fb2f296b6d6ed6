#pragma once
/// \file
/// The protocols nodes speak over QUIC: name (ALPN), and how long a request and its reply may be.
///
/// In each of them one bidirectional stream is one call: the caller sends its request and finishes,
/// the other side sends its reply and finishes. A request or reply beyond its limit ends the stream
/// before it is kept. `tenzro/moe` is the protocol of foreign endpoints; the others are spoken
/// between our own nodes and begin with a version.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenzro::wire {

enum class Protocol : std::uint8_t { moe, exec, gossip, blob };

inline constexpr Protocol kProtocols[] = {Protocol::moe, Protocol::exec, Protocol::gossip,
                                          Protocol::blob};

struct ProtocolLimits {
  std::size_t request_bytes_max = 0;
  std::size_t reply_bytes_max = 0;
};

/// "tenzro/moe", "tenzro/exec/1", "tenzro/gossip/1", "tenzro/blob/1".
[[nodiscard]] std::string_view alpn_of(Protocol protocol);
[[nodiscard]] std::optional<Protocol> protocol_from_alpn(std::string_view alpn);
[[nodiscard]] ProtocolLimits limits_of(Protocol protocol);

/// Largest JSON body of a `tenzro/moe` frame, both ways; four length bytes stand before it.
inline constexpr std::size_t kMoeFrameBytesMax = 4ULL << 20U;
/// Largest `tenzro/exec/1` request or reply; callers split their batches so that both fit.
inline constexpr std::size_t kExecMessageBytesMax = 16ULL << 20U;
inline constexpr std::size_t kGossipMessageBytesMax = 1ULL << 20U;
/// Largest range of one `tenzro/blob/1` call.
inline constexpr std::size_t kBlobRangeBytesMax = 4ULL << 20U;

}  // namespace tenzro::wire
