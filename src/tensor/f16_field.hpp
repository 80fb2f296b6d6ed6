#pragma once
/// \file
/// The little-endian f16 fields of block formats.
#include <cstddef>
#include <cstdint>

#include "tenzro/tensor/dtype.hpp"

namespace tenzro::tensor {

inline constexpr std::uint16_t kF16Nan = 0x7E00;

[[nodiscard]] inline std::uint16_t load_f16_bits(const std::byte* from) {
  const auto low = std::to_integer<std::uint32_t>(from[0]);
  const auto high = std::to_integer<std::uint32_t>(from[1]);
  return static_cast<std::uint16_t>(low | (high << 8U));
}

[[nodiscard]] inline float load_f16(const std::byte* from) {
  return f16_to_f32(load_f16_bits(from));
}

inline void store_f16_bits(std::uint16_t bits, std::byte* to) {
  to[0] = static_cast<std::byte>(bits & 0xFFU);
  to[1] = static_cast<std::byte>(bits >> 8U);
}

}  // namespace tenzro::tensor
