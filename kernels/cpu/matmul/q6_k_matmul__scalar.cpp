#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/scalar_support.hpp"

namespace {

float add_block(const std::uint8_t* panel, std::size_t block, std::size_t lane, const TzQ8Block& x,
                float sum) {
  const std::uint8_t* quants = quants_of<kQ6BlockBytes>(panel, block) + lane * 4;
  std::int32_t dots[2] = {0, 0};
  for (std::size_t i = 0; i < 32; ++i) {
    const std::size_t g = i / 4;
    const std::uint8_t* half = quants + g / 4 * 192;
    const std::uint32_t pair = half[g / 2 % 2 * 64 + i % 4];
    const std::uint32_t nibble = g % 2 == 0 ? pair & 15U : pair >> 4U;
    const std::uint32_t top = (static_cast<std::uint32_t>(half[128 + i % 4]) >> (g % 4 * 2)) & 3U;
    dots[i / 16] += (static_cast<std::int32_t>(nibble | (top << 4U)) - 32) * x.q[i];
  }
  const std::uint8_t* scales = scales_of<kQ6BlockBytes>(panel, block) + lane;
  const std::int32_t dot = static_cast<std::int8_t>(scales[0]) * dots[0] +
                           static_cast<std::int8_t>(scales[16]) * dots[1];
  const float d = widen_f16(load_u16(super_of<kQ6BlockBytes>(panel, block) + lane * 2));
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

extern "C" void tz_q6_k_matmul_m1n1__scalar(const TzMatmul* job) {
  each_output<dot>(job);
}
