#pragma once
/// \file
/// Shared text of the scalar matmul kernels. Internal linkage: see kernels/cpu/abi.hpp.
#include <cstring>

#include "kernels/cpu/abi.hpp"

namespace {

constexpr std::size_t kPanel = 16;

[[maybe_unused]] float f32_from_bits(std::uint32_t bits) {
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

[[maybe_unused]] std::uint16_t load_u16(const std::uint8_t* from) {
  std::uint16_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Exact, subnormals included. Weights are finite (refused at load otherwise); infinities and NaN
/// map to themselves.
[[maybe_unused]] float widen_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0x1FU) return f32_from_bits(sign | 0x7F800000U | (fraction << 13U));
  if (exponent != 0) return f32_from_bits(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

/// Writes Dot(job, panel, lane, x) for every row and output; adds the bias once, after the last k.
template <float (*Dot)(const TzMatmul*, const std::uint8_t*, std::size_t, const void*)>
void each_output(const TzMatmul* job) {
  for (std::size_t row = 0; row < job->rows; ++row) {
    for (std::size_t n = 0; n < job->cols; ++n) {
      const std::uint8_t* panel = job->weights + n / kPanel * job->panel_bytes;
      const float sum = Dot(job, panel, n % kPanel, job->x[row]);
      job->out[row * job->out_stride + n] = job->bias != nullptr ? sum + job->bias[n] : sum;
    }
  }
}

}  // namespace
