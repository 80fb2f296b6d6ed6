#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/scalar_support.hpp"

namespace {

float add_block(const std::uint8_t* panel, std::size_t block, std::size_t lane, const TzQ8Block& x,
                float sum) {
  const std::uint8_t* quants = q8_0_quants(panel, block) + lane * 4;
  std::int32_t dot = 0;
  for (std::size_t i = 0; i < 32; ++i) dot += (quants[i / 4 * 64 + i % 4] - 128) * x.q[i];
  const float d = widen_f16(load_u16(q8_0_scales(panel, block) + lane * 2));
  return __builtin_fmaf(static_cast<float>(dot), d * x.scale, sum);
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

extern "C" void tz_q8_0_matmul_m1n1__scalar(const TzMatmul* job) {
  each_output<dot>(job);
}
