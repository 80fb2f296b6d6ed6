#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/tiles__avx512.hpp"

namespace {

struct Block {
  template <std::size_t Rows>
  static void add(const std::uint8_t* panel, std::size_t block, const TzQ8Block* const* x,
                  __m512* sum) {
    const std::uint8_t* quants = q8_0_quants(panel, block);
    __m512i dot[Rows];
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm512_set1_epi32(x[r][block].minus_128_sum);
    for (std::size_t g = 0; g < 8; ++g) {
      const __m512i w = _mm512_load_si512(quants + 64 * g);
      prefetch_q8_0<Rows>(quants + 64 * g);
      for (std::size_t r = 0; r < Rows; ++r)
        dot[r] = _mm512_dpbusd_epi32(dot[r], w, four(x[r][block].q + 4 * g));
    }
    const __m512 d = load_f16(q8_0_scales(panel, block));
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(x[r][block].scale));
      sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), scale, sum[r]);
    }
  }
};

}  // namespace

extern "C" void tz_q8_0_matmul_m8n16__avx512vnni(const TzMatmul* job) {
  run_block_tiles<Block>(job);
}
