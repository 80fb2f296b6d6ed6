#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/tiles__avx2.hpp"

namespace {

/// 8 signed bytes as f32.
__m256 widen(const std::uint8_t* bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_bytes(bytes)));
}

/// (nibbles & 15) | (bits & 0x30)
__m256i merged(__m256i nibbles, __m256i bits) {
  return _mm256_or_si256(_mm256_and_si256(nibbles, _mm256_set1_epi8(15)),
                         _mm256_and_si256(bits, _mm256_set1_epi8(0x30)));
}

struct Block {
  template <std::size_t Rows>
  static void add(const std::uint8_t* panel, std::size_t half, std::size_t block,
                  const TzQ8Block* const* x, __m256* sum) {
    const std::uint8_t* quants = quants_of<kQ6BlockBytes>(panel, block) + half * 32;
    const std::uint8_t* scales = scales_of<kQ6BlockBytes>(panel, block) + half * 8;
    if (half == 0) {
      for (std::size_t line = 0; line < 6; ++line) prefetch_after(quants + 64 * line);
    }
    // Every value here is an integer below 2^24, so f32 holds s0·first + s1·second exactly.
    __m256 part[Rows];
    __m256i dot[Rows];
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm256_set1_epi32(x[r][block].minus_32_first);
    add_half<Rows>(quants, quants + 128, x, block, 0, dot);
    const __m256 s0 = widen(scales);
    for (std::size_t r = 0; r < Rows; ++r) {
      part[r] = _mm256_mul_ps(_mm256_cvtepi32_ps(dot[r]), s0);
      dot[r] = _mm256_set1_epi32(x[r][block].minus_32_second);
    }
    add_half<Rows>(quants + 192, quants + 320, x, block, 16, dot);
    const __m256 s1 = widen(scales + 16);
    const __m256 d = load_f16(super_of<kQ6BlockBytes>(panel, block) + half * 16);
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m256 whole = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r]), s1, part[r]);
      sum[r] = _mm256_fmadd_ps(whole, _mm256_mul_ps(d, _mm256_set1_ps(x[r][block].scale)), sum[r]);
    }
  }

  /// 16 values along K from `at` on: two vectors of nibbles, one of the bits above them.
  template <std::size_t Rows>
  static void add_half(const std::uint8_t* low, const std::uint8_t* high, const TzQ8Block* const* x,
                       std::size_t block, std::size_t at, __m256i* dot) {
    const __m256i bits = load_256(high);
    const __m256i n0 = load_256(low);
    const __m256i n1 = load_256(low + 64);
    add_pair<Rows>(merged(n0, _mm256_slli_epi16(bits, 4)),
                   merged(_mm256_srli_epi16(n0, 4), _mm256_slli_epi16(bits, 2)), x, block, at, dot);
    add_pair<Rows>(merged(n1, bits), merged(_mm256_srli_epi16(n1, 4), _mm256_srli_epi16(bits, 2)),
                   x, block, at + 8, dot);
  }

  /// Two sums of two products of at most 63·127 stay below 2^15.
  template <std::size_t Rows>
  static void add_pair(__m256i w0, __m256i w1, const TzQ8Block* const* x, std::size_t block,
                       std::size_t at, __m256i* dot) {
    for (std::size_t r = 0; r < Rows; ++r) {
      const std::int8_t* q = x[r][block].q + at;
      const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w0, four(q)),
                                             _mm256_maddubs_epi16(w1, four(q + 4)));
      dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
  }
};

}  // namespace

extern "C" void tz_q6_k_matmul_m4n8__avx2(const TzMatmul* job) {
  run_tiles<BlockTile<Block>>(job);
}
