#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/tiles__avx512.hpp"

namespace {

/// 16 unsigned bytes as f32.
__m512 widen(const std::uint8_t* bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(bytes)));
}

struct Block {
  template <std::size_t Rows>
  static void add(const std::uint8_t* panel, std::size_t block, const TzQ8Block* const* x,
                  __m512* sum) {
    __m512i dot[Rows];
    dot_block<Rows>(quants_of<kQ4BlockBytes>(panel, block), block, x, dot);
    const std::uint8_t* scales = scales_of<kQ4BlockBytes>(panel, block);
    const std::uint8_t* super = super_of<kQ4BlockBytes>(panel, block);
    const __m512 d = _mm512_mul_ps(load_f16(super), widen(scales));
    const __m512 m = _mm512_mul_ps(load_f16(super + 32), widen(scales + 16));
    const __m512 minus_m = _mm512_sub_ps(_mm512_set1_ps(-0.0F), m);
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m512 dx = _mm512_set1_ps(x[r][block].scale);
      sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), _mm512_mul_ps(d, dx), sum[r]);
      sum[r] = _mm512_fmadd_ps(_mm512_set1_ps(x[r][block].sum), _mm512_mul_ps(minus_m, dx), sum[r]);
    }
  }

  /// Eight sums of two products of at most 15·127 stay below 2^15, so i16 lanes collect a whole
  /// block.
  template <std::size_t Rows>
  static void dot_block(const std::uint8_t* quants, std::size_t block, const TzQ8Block* const* x,
                        __m512i* dot) {
    const __m512i nibble = _mm512_set1_epi8(15);
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm512_setzero_si512();
    for (std::size_t pair = 0; pair < 4; ++pair) {
      const __m512i both = _mm512_load_si512(quants + 64 * pair);
      prefetch_k_quant<Rows>(quants + 64 * pair);
      const __m512i low = _mm512_and_si512(both, nibble);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
      for (std::size_t r = 0; r < Rows; ++r) {
        const std::int8_t* q = x[r][block].q + 8 * pair;
        dot[r] = _mm512_add_epi16(dot[r], _mm512_maddubs_epi16(low, four(q)));
        dot[r] = _mm512_add_epi16(dot[r], _mm512_maddubs_epi16(high, four(q + 4)));
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm512_madd_epi16(dot[r], _mm512_set1_epi16(1));
  }
};

}  // namespace

extern "C" void tz_q4_k_matmul_m8n16__avx512(const TzMatmul* job) {
  run_block_tiles<Block>(job);
}
