#pragma once
/// \file
/// Identifiers. Each is a type of its own, so that two of them cannot be swapped by mistake.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tenzro {

/// Opaque model name: 1..kModelIdBytesMax bytes of UTF-8 without control characters.
/// Never part of a path: hash or percent-encode it.
using ModelId = std::string;
inline constexpr std::size_t kModelIdBytesMax = 256;

using LayerIndex = std::uint32_t;
/// Index of an expert in its layer; the fused shared expert has index `num_experts`.
using ExpertIndex = std::uint32_t;

struct LayerKey {
  ModelId model;
  LayerIndex layer = 0;
  friend auto operator<=>(const LayerKey&, const LayerKey&) = default;
};

struct ExpertKey {
  ModelId model;
  LayerIndex layer = 0;
  ExpertIndex expert = 0;
  friend auto operator<=>(const ExpertKey&, const ExpertKey&) = default;
};

using Hash32 = std::array<std::uint8_t, 32>;
/// BLAKE3 root of a blob's bytes.
using BlobHash = Hash32;
/// SHA-256 of a provider's Ed25519 public key.
using ProviderAddress = Hash32;
/// An Ed25519 public key, as the identity of a QUIC endpoint.
using EndpointId = Hash32;

/// One JSON-RPC request inside this node. Unique for the life of the process.
enum class RequestId : std::uint64_t {};
/// One piece of work given to `exec` or `store`. Unique for the life of the process.
enum class JobId : std::uint64_t {};
/// One request this node sends to a peer. Unique for the life of the process.
enum class PeerCallId : std::uint64_t {};
/// One request a peer sent to this node. Unique for the life of the process.
enum class PeerRequestId : std::uint64_t {};

}  // namespace tenzro
