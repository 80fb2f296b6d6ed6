#include "kernels/cpu/matmul/tiles__avx2.hpp"

namespace {

struct Tile {
  template <std::size_t Rows>
  static void run(const TzMatmul* job, std::size_t row, std::size_t panel) {
    one_half<Rows>(job, row, panel, 0);
    one_half<Rows>(job, row, panel, 1);
  }

  template <std::size_t Rows>
  static void one_half(const TzMatmul* job, std::size_t row, std::size_t panel, std::size_t half) {
    const std::uint8_t* quants = job->weights + panel * job->panel_bytes;
    const std::uint8_t* scales = quants + job->scales_at + half * 16;
    quants += half * 32;
    const TzQ8Block* x[Rows];
    __m256 sum[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const TzQ8Block*>(job->x[row + r]);
      sum[r] = _mm256_setzero_ps();
    }
    const __m256i offset = _mm256_set1_epi8(static_cast<char>(0x80));
    const __m256i ones = _mm256_set1_epi16(1);
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      __m256i dot[Rows];
      for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm256_setzero_si256();
      for (std::size_t g = 0; g < 8; ++g) {
        // |w| times x with w's sign: a sum of two products is at most 2·128·127, which i16 holds.
        const __m256i w = _mm256_xor_si256(load_256(quants + 64 * g), offset);
        const __m256i magnitude = _mm256_abs_epi8(w);
        for (std::size_t r = 0; r < Rows; ++r) {
          const __m256i signed_x = _mm256_sign_epi8(four(x[r][block].q + 4 * g), w);
          dot[r] = _mm256_add_epi32(
              dot[r], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_x), ones));
        }
      }
      const __m256 d = load_f16(scales);
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(x[r][block].scale));
        sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r]), scale, sum[r]);
      }
      quants += 512;
      scales += 32;
    }
    for (std::size_t r = 0; r < Rows; ++r)
      store_half(job, row + r, panel * kPanel + half * kHalf, sum[r]);
  }
};

}  // namespace

extern "C" void tz_q8_0_matmul_m4n8__avx2(const TzMatmul* job) {
  run_tiles<Tile>(job);
}
