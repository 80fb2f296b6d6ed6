#pragma once
/// \file
/// Finiteness of many values at once, by their exponent bits.
#include <bit>
#include <cstdint>
#include <span>

namespace tenzro::tensor {

[[nodiscard]] inline bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7F800000U;
  std::uint32_t bad = 0;
  for (const float value : values) {
    bad |=
        static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent);
  }
  return bad == 0;
}

}  // namespace tenzro::tensor
