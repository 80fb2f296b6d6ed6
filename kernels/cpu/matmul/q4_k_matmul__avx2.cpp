#include "kernels/cpu/matmul/tiles__avx2.hpp"

namespace {

/// 8 unsigned bytes as f32.
__m256 widen(const std::uint8_t* bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_bytes(bytes)));
}

struct Tile {
  template <std::size_t Rows>
  static void run(const TzMatmul* job, std::size_t row, std::size_t panel) {
    one_half<Rows>(job, row, panel, 0);
    one_half<Rows>(job, row, panel, 1);
  }

  template <std::size_t Rows>
  static void one_half(const TzMatmul* job, std::size_t row, std::size_t panel, std::size_t half) {
    const std::uint8_t* quants = job->weights + panel * job->panel_bytes;
    const std::uint8_t* scales = quants + job->scales_at + half * 8;
    const std::uint8_t* supers = quants + job->supers_at + half * 16;
    quants += half * 32;
    const TzQ8Block* x[Rows];
    __m256 sum[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const TzQ8Block*>(job->x[row + r]);
      sum[r] = _mm256_setzero_ps();
    }
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      __m256i dot[Rows];
      dot_block<Rows>(quants, x, block, dot);
      const std::uint8_t* super = supers + block / 8 * 64;
      const __m256 d = _mm256_mul_ps(load_f16(super), widen(scales));
      const __m256 m = _mm256_mul_ps(load_f16(super + 32), widen(scales + 16));
      const __m256 minus_m = _mm256_sub_ps(_mm256_set1_ps(-0.0F), m);
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m256 dx = _mm256_set1_ps(x[r][block].scale);
        sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r]), _mm256_mul_ps(d, dx), sum[r]);
        sum[r] =
            _mm256_fmadd_ps(_mm256_set1_ps(x[r][block].sum), _mm256_mul_ps(minus_m, dx), sum[r]);
      }
      quants += 256;
      scales += 32;
    }
    for (std::size_t r = 0; r < Rows; ++r)
      store_half(job, row + r, panel * kPanel + half * kHalf, sum[r]);
  }

  /// Eight sums of two products of at most 15·127 stay below 2^15, so i16 lanes collect a whole
  /// block.
  template <std::size_t Rows>
  static void dot_block(const std::uint8_t* quants, const TzQ8Block* const* x, std::size_t block,
                        __m256i* dot) {
    const __m256i nibble = _mm256_set1_epi8(15);
    for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm256_setzero_si256();
    for (std::size_t pair = 0; pair < 4; ++pair) {
      const __m256i both = load_256(quants + 64 * pair);
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
  run_tiles<Tile>(job);
}
