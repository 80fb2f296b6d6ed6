#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/tiles__avx2.hpp"

namespace {

/// 8 unsigned bytes as f32.
__m256 widen(const std::uint8_t* bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_bytes(bytes)));
}

struct Block {
  template <std::size_t Rows>
  static void add(const std::uint8_t* panel, std::size_t half, std::size_t block,
                  const TzQ8Block* const* x, __m256* sum) {
    __m256i dot[Rows];
    dot_block<Rows>(quants_of<kQ4BlockBytes>(panel, block), half, block, x, dot);
    const std::uint8_t* scales = scales_of<kQ4BlockBytes>(panel, block) + half * 8;
    const std::uint8_t* super = super_of<kQ4BlockBytes>(panel, block) + half * 16;
    const __m256 d = _mm256_mul_ps(load_f16(super), widen(scales));
    const __m256 m = _mm256_mul_ps(load_f16(super + 32), widen(scales + 16));
    const __m256 minus_m = _mm256_sub_ps(_mm256_set1_ps(-0.0F), m);
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m256 dx = _mm256_set1_ps(x[r][block].scale);
      sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r]), _mm256_mul_ps(d, dx), sum[r]);
      sum[r] = _mm256_fmadd_ps(_mm256_set1_ps(x[r][block].sum), _mm256_mul_ps(minus_m, dx), sum[r]);
    }
  }

  /// Eight sums of two products of at most 15·127 stay below 2^15, so i16 lanes collect a whole
  /// block.
  template <std::size_t Rows>
  static void dot_block(const std::uint8_t* quants, std::size_t half, std::size_t block,
                        const TzQ8Block* const* x, __m256i* dot) {
    const __m256i nibble = _mm256_set1_epi8(15);
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm256_setzero_si256();
    for (std::size_t pair = 0; pair < 4; ++pair) {
      const __m256i both = load_256(quants + 64 * pair + 32 * half);
      if (half == 0) prefetch_after(quants + 64 * pair);
      const __m256i low = _mm256_and_si256(both, nibble);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
      for (std::size_t r = 0; r < Rows; ++r) {
        const std::int8_t* q = x[r][block].q + 8 * pair;
        dot[r] = _mm256_add_epi16(dot[r], _mm256_maddubs_epi16(low, four(q)));
        dot[r] = _mm256_add_epi16(dot[r], _mm256_maddubs_epi16(high, four(q + 4)));
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm256_madd_epi16(dot[r], _mm256_set1_epi16(1));
  }
};

}  // namespace

extern "C" void tz_q4_k_matmul_m4n8__avx2(const TzMatmul* job) {
  run_tiles<BlockTile<Block>>(job);
}
