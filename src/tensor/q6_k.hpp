#pragma once
/// \file
/// One Q6_K block of 256 elements in sixteen groups of 16:
///   ql[128], qh[64], i8 group scales[16], f16 d; element = (d * scale) * (q - 32), q of six bits.
/// Each half of 128 elements takes 64 bytes of ql and 32 of qh. With l = 0..31 in a half: byte l of
/// ql holds the low four bits of elements l and l + 64, byte l + 32 those of l + 32 and l + 96;
/// byte l of qh holds the high two bits of elements l, l + 32, l + 64, l + 96, lowest first.
#include <cstddef>
#include <span>

namespace tenzro::tensor {

inline constexpr std::size_t kQ6KElements = 256;
inline constexpr std::size_t kQ6KBytes = 210;
/// Where the f16 fields begin.
inline constexpr std::size_t kQ6KScaleField = 208;

/// A non-finite element makes the whole block zero with a NaN scale.
void encode_q6_k(std::span<const float, kQ6KElements> x, std::span<std::byte, kQ6KBytes> block);
/// As encode_q6_k, with how much each element counts.
void encode_q6_k_weighted(std::span<const float, kQ6KElements> x,
                          std::span<const float, kQ6KElements> importance,
                          std::span<std::byte, kQ6KBytes> block);
void decode_q6_k(std::span<const std::byte, kQ6KBytes> block, std::span<float, kQ6KElements> out);

}  // namespace tenzro::tensor
