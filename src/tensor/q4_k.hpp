#pragma once
/// \file
/// One Q4_K block of 256 elements in eight groups of 32:
///   f16 d, f16 dmin, 12 bytes of 6-bit group scales sc and mins m, 128 bytes of 4-bit values q;
///   element = (d * sc) * q - dmin * m.
/// Bytes 4..7 hold sc of groups 0..3 in their low six bits, bytes 8..11 hold m of groups 0..3;
/// bytes 12..15 hold the low four bits of sc (low nibble) and m (high nibble) of groups 4..7, whose
/// high two bits lie on top of bytes 4..7 and 8..11. Value byte i of each 32-byte stripe holds
/// element i of an even group (low nibble) and of the odd group after it (high nibble).
#include <cstddef>
#include <span>

namespace tenzro::tensor {

inline constexpr std::size_t kQ4KElements = 256;
inline constexpr std::size_t kQ4KBytes = 144;
/// Where the f16 fields begin.
inline constexpr std::size_t kQ4KScaleField = 0;
inline constexpr std::size_t kQ4KMinimumField = 2;

/// A non-finite element makes the whole block zero with NaN scales.
void encode_q4_k(std::span<const float, kQ4KElements> x, std::span<std::byte, kQ4KBytes> block);
/// As encode_q4_k, with how much each element counts.
void encode_q4_k_weighted(std::span<const float, kQ4KElements> x,
                          std::span<const float, kQ4KElements> importance,
                          std::span<std::byte, kQ4KBytes> block);
void decode_q4_k(std::span<const std::byte, kQ4KBytes> block, std::span<float, kQ4KElements> out);

}  // namespace tenzro::tensor
