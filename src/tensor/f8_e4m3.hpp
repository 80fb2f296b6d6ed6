#pragma once
/// \file
/// F8_E4M3 ("fn": no infinity, NaN where all magnitude bits are set) to f32, at compile time too.
#include <bit>
#include <cstdint>

namespace tenzro::tensor {

[[nodiscard]] constexpr float decode_f8_e4m3(std::uint8_t bits) {
  const std::uint32_t sign = (bits & 0x80U) << 24U;
  const std::uint32_t magnitude = bits & 0x7FU;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000U);
  if (magnitude < 8) {
    // Zero or subnormal: fraction * 2^-9.
    const float value = static_cast<float>(magnitude) * 0x1p-9F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  // Rebias the exponent from 7 to 127.
  return std::bit_cast<float>(sign | ((magnitude << 20U) + (120U << 23U)));
}

}  // namespace tenzro::tensor
