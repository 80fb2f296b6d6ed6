#include <cstring>

#include "kernels/cpu/abi.hpp"

namespace {

std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float from_bits(std::uint32_t bits) {
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// A finite, non-negative d rounded to f16 (nearest, ties to even) and widened; d itself where f16
/// overflows.
float rounded_scale(float d) {
  if (d >= 65520.0F)
    return d;  // half way between the largest f16 and the next power: rounds to infinity
  // Below 2^-14 an f16 has a fixed step of 2^-24; above, 13 fraction bits of the f32 go.
  if (d < 0x1p-14F) return (d * 0x1p24F + 0x1p23F - 0x1p23F) * 0x1p-24F;
  const std::uint32_t bits = bits_of(d);
  return from_bits((bits + 0xFFFU + ((bits >> 13U) & 1U)) & ~0x1FFFU);
}

/// Nearest, halves away from zero.
std::int32_t rounded(float value) {
  const auto whole = static_cast<std::int32_t>(value);
  const float rest = value - static_cast<float>(whole);
  if (rest >= 0.5F) return whole + 1;
  return rest <= -0.5F ? whole - 1 : whole;
}

void quantize_block(const float* x, TzQ8Block* out) {
  std::uint32_t amax_bits = 0;  // magnitudes order as their bits do, NaN above infinity
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint32_t bits = bits_of(x[i]) & 0x7FFFFFFFU;
    if (bits > amax_bits) amax_bits = bits;
  }
  std::memset(out, 0, sizeof *out);
  if (amax_bits >= 0x7F800000U) {
    out->scale = from_bits(0x7FC00000U);
    return;
  }
  const float d = from_bits(amax_bits) / 127.0F;
  out->scale = rounded_scale(d);
  const float inverse = 1.0F / d;
  if (inverse > 0x1.FFFFFEp127F)
    return;  // d is zero or nearly: the scale is zero too, so q does not matter
  std::int32_t sums[2] = {0, 0};
  for (std::size_t i = 0; i < 32; ++i) {
    const std::int32_t q = rounded(x[i] * inverse);
    out->q[i] = static_cast<std::int8_t>(q);
    sums[i / 16] += q;
  }
  out->sum = static_cast<float>(sums[0] + sums[1]);
  out->minus_128_sum = -128 * (sums[0] + sums[1]);
  out->minus_32_first = -32 * sums[0];
  out->minus_32_second = -32 * sums[1];
}

}  // namespace

extern "C" void tz_f32_quantize_b32__scalar(const float* x, std::size_t blocks, TzQ8Block* out) {
  for (std::size_t i = 0; i < blocks; ++i) quantize_block(x + i * 32, out + i);
}
