#include "kernels/cpu/matmul/scalar_support.hpp"

namespace {

float dot(const TzMatmul* job, const std::uint8_t* panel, std::size_t lane, const void* row) {
  const float* x = static_cast<const float*>(row);
  float sum = 0.0F;
  for (std::size_t k = 0; k < job->k; ++k) {
    float w = 0.0F;
    std::memcpy(&w, panel + (k * kPanel + lane) * sizeof w, sizeof w);
    sum = __builtin_fmaf(w, x[k], sum);
  }
  return sum;
}

}  // namespace

extern "C" void tz_f32_matmul_m1n1__scalar(const TzMatmul* job) {
  each_output<dot>(job);
}
