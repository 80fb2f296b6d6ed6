#pragma once
/// \file
/// One Q8_0 block: f16 scale d, then 32 signed bytes q; element = q * d.
#include <cstddef>
#include <span>

namespace tenzro::tensor {

inline constexpr std::size_t kQ80Elements = 32;
inline constexpr std::size_t kQ80Bytes = 34;
/// Where the f16 fields begin.
inline constexpr std::size_t kQ80ScaleField = 0;

/// A non-finite element makes the whole block zero with a NaN scale.
void encode_q8_0(std::span<const float, kQ80Elements> x, std::span<std::byte, kQ80Bytes> block);
void decode_q8_0(std::span<const std::byte, kQ80Bytes> block, std::span<float, kQ80Elements> out);

}  // namespace tenzro::tensor
