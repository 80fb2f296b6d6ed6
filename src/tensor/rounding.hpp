#pragma once
/// \file
/// Float to integer the way the reference quantisers round.
#include <bit>
#include <cstdint>

namespace tenzro::tensor {

/// Nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves it in the low bits.
/// Beyond that range (and for NaN) the result is some integer, the same one everywhere.
[[nodiscard]] inline int nearest_int(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x + 12582912.0F);
  return static_cast<int>(bits & 0x007FFFFFU) - 0x00400000;
}

/// Nearest integer, ties away from zero, for |x| < 2^31.
[[nodiscard]] inline int nearest_int_away(float x) {
  const int whole = static_cast<int>(x);
  const float rest = x - static_cast<float>(whole);  // exact
  return whole + static_cast<int>(rest >= 0.5F) - static_cast<int>(rest <= -0.5F);
}

}  // namespace tenzro::tensor
