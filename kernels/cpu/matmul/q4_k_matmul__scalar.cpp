#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/scalar_support.hpp"

namespace {

float add_block(const std::uint8_t* panel, std::size_t block, std::size_t lane, const TzQ8Block& x,
                float sum) {
  const std::uint8_t* quants = quants_of<kQ4BlockBytes>(panel, block) + lane * 4;
  std::int32_t dot = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint32_t pair = quants[i / 8 * 64 + i % 4];
    dot += static_cast<std::int32_t>(i / 4 % 2 == 0 ? pair & 15U : pair >> 4U) * x.q[i];
  }
  const std::uint8_t* scales = scales_of<kQ4BlockBytes>(panel, block) + lane;
  const std::uint8_t* supers = super_of<kQ4BlockBytes>(panel, block) + lane * 2;
  const float d = widen_f16(load_u16(supers)) * static_cast<float>(scales[0]);
  const float minimum = widen_f16(load_u16(supers + 32)) * static_cast<float>(scales[16]);
  sum = __builtin_fmaf(static_cast<float>(dot), d * x.scale, sum);
  return __builtin_fmaf(x.sum, -minimum * x.scale, sum);
}

float dot(const TzMatmul* job, const std::uint8_t* panel, std::size_t lane, const void* row) {
  const TzQ8Block* x = static_cast<const TzQ8Block*>(row);
  float sum = 0.0F;
  for (std::size_t block = 0; block < job->k / 32; ++block) {
    sum = add_block(panel, block, lane, x[block], sum);
  }
  return sum;
}

}  // namespace

extern "C" void tz_q4_k_matmul_m1n1__scalar(const TzMatmul* job) {
  each_output<dot>(job);
}
