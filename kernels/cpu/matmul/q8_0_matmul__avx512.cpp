#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/tiles__avx512.hpp"

namespace {

struct Block {
  template <std::size_t Rows>
  static void add(const std::uint8_t* panel, std::size_t block, const TzQ8Block* const* x,
                  __m512* sum) {
    const std::uint8_t* quants = q8_0_quants(panel, block);
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
    __m512i dot[Rows];
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm512_setzero_si512();
    for (std::size_t g = 0; g < 8; ++g) {
      // |w| times x with the sign of w: a sum of two products is at most 2·128·127, which i16
      // holds.
      const __m512i w = _mm512_xor_si512(_mm512_load_si512(quants + 64 * g), offset);
      prefetch_q8_0<Rows>(quants + 64 * g);
      const __m512i magnitude = _mm512_abs_epi8(w);
      const __mmask64 negative = _mm512_movepi8_mask(w);
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m512i q = four(x[r][block].q + 4 * g);
        const __m512i signed_q = _mm512_mask_sub_epi8(q, negative, _mm512_setzero_si512(), q);
        const __m512i pairs = _mm512_maddubs_epi16(magnitude, signed_q);
        dot[r] = _mm512_add_epi32(dot[r], _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
      }
    }
    const __m512 d = load_f16(q8_0_scales(panel, block));
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(x[r][block].scale));
      sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), scale, sum[r]);
    }
  }
};

}  // namespace

extern "C" void tz_q8_0_matmul_m8n16__avx512(const TzMatmul* job) {
  run_block_tiles<Block>(job);
}
