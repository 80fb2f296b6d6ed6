#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/tiles__avx2.hpp"

namespace {

struct Block {
  template <std::size_t Rows>
  static void add(const std::uint8_t* panel, std::size_t half, std::size_t block,
                  const TzQ8Block* const* x, __m256* sum) {
    const std::uint8_t* quants = q8_0_quants(panel, block) + half * 32;
    const __m256i offset = _mm256_set1_epi8(static_cast<char>(0x80));
    __m256i dot[Rows];
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm256_setzero_si256();
    for (std::size_t g = 0; g < 8; ++g) {
      // |w| times x with the sign of w: a sum of two products is at most 2·128·127, which i16
      // holds.
      const __m256i w = _mm256_xor_si256(load_256(quants + 64 * g), offset);
      if (half == 0) prefetch_after(quants + 64 * g);
      const __m256i magnitude = _mm256_abs_epi8(w);
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m256i signed_q = _mm256_sign_epi8(four(x[r][block].q + 4 * g), w);
        const __m256i pairs = _mm256_maddubs_epi16(magnitude, signed_q);
        dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      }
    }
    const __m256 d = load_f16(q8_0_scales(panel, block) + half * 16);
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(x[r][block].scale));
      sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r]), scale, sum[r]);
    }
  }
};

}  // namespace

extern "C" void tz_q8_0_matmul_m4n8__avx2(const TzMatmul* job) {
  run_tiles<BlockTile<Block>>(job);
}
