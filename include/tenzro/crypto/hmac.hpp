#pragma once
/// \file
/// HMAC-SHA256 (RFC 2104), and comparison in constant time.
///
/// Pure, allocation-free. Thread: any.
#include <cstdint>
#include <span>

#include "tenzro/base/ids.hpp"

namespace tenzro::crypto {

/// A key of any length; more than 64 bytes are hashed first, as the RFC says.
[[nodiscard]] Hash32 hmac_sha256(std::span<const std::uint8_t> key,
                                 std::span<const std::uint8_t> message);

/// Whether two byte strings are equal, in a time that depends on their lengths alone. For secrets
/// (tokens, tags): an early exit would tell an attacker how much of a guess was right.
[[nodiscard]] bool equal_in_constant_time(std::span<const std::uint8_t> a,
                                          std::span<const std::uint8_t> b);

}  // namespace tenzro::crypto
