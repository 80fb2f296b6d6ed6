#include "kernels/cpu/matmul/scalar_support.hpp"

namespace {

float dot(const TzMatmul* job, const std::uint8_t* panel, std::size_t lane, const void* row) {
  const float* x = static_cast<const float*>(row);
  float sum = 0.0F;
  for (std::size_t k = 0; k < job->k; ++k) {
    const std::uint8_t* pair = panel + (k / 2 * kPanel + lane) * 4;
    const float w = f32_from_bits(std::uint32_t{load_u16(pair + k % 2 * 2)} << 16U);
    sum = __builtin_fmaf(w, x[k], sum);
  }
  return sum;
}

}  // namespace

extern "C" void tz_bf16_matmul_m1n1__scalar(const TzMatmul* job) {
  each_output<dot>(job);
}
