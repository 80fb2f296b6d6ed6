#pragma once
/// \file
/// Requests and replies of `tenzro/gossip/1` (proto/gossip.proto).
///
/// The decoder checks the version byte first, then sizes and counts; sealed messages inside stay
/// the bytes they are. Pure. Thread: any.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"

namespace tenzro::wire {

inline constexpr std::uint8_t kGossipVersion = 1;
inline constexpr std::uint8_t kGossipFeatures = 0;
inline constexpr std::size_t kGossipBeatsMax = 4096;
inline constexpr std::size_t kGossipRecordsMax = 1024;
inline constexpr std::size_t kGossipEntriesMax = 32'768;
inline constexpr std::size_t kGossipWantedMax = 4096;
inline constexpr std::size_t kGossipPagesMax = 256;
inline constexpr std::size_t kGossipErrorBytesMax = 512;

/// The first eight bytes of an address; equal ones are the same provider to a digest.
using AddressPrefix = std::array<std::uint8_t, 8>;
[[nodiscard]] AddressPrefix prefix_of(const ProviderAddress& address);

struct DigestEntry {
  AddressPrefix prefix{};
  std::uint64_t version = 0;
  friend auto operator<=>(const DigestEntry&, const DigestEntry&) = default;
};

enum class Link : std::uint8_t { none, wanted, declined };

using Bytes = std::vector<std::uint8_t>;

struct GossipMessage {
  std::vector<Bytes> beats;
  std::vector<Bytes> records;
  std::vector<DigestEntry> announced;
  /// Absent: this is no comparison of views.
  std::optional<std::vector<DigestEntry>> digest;
  std::vector<AddressPrefix> wanted;
  std::vector<AddressPrefix> records_wanted;
  Link link = Link::none;
  bool prune = false;
  std::optional<ProviderAddress> probe;
  std::vector<Hash32> pages_wanted;
  std::vector<Bytes> pages;
  std::string error;  ///< why the request was refused; the peer's words, as they came
  friend bool operator==(const GossipMessage&, const GossipMessage&) = default;
};

[[nodiscard]] BufferRef encode_gossip(const GossipMessage& message);
/// Errors: invalid_params; forbidden, with a sentence to answer, where the peer speaks another
/// version or needs features that this node lacks.
[[nodiscard]] Result<GossipMessage> decode_gossip(std::span<const std::uint8_t> bytes);

}  // namespace tenzro::wire
