#include "kernels/cpu/matmul/tiles__avx2.hpp"

namespace {

struct Tile {
  template <std::size_t Rows>
  static void run(const TzMatmul* job, std::size_t row, std::size_t panel) {
    const std::uint8_t* weights = job->weights + panel * job->panel_bytes;
    const float* x[Rows];
    __m256 low[Rows];
    __m256 high[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const float*>(job->x[row + r]);
      low[r] = _mm256_setzero_ps();
      high[r] = _mm256_setzero_ps();
    }
    for (std::size_t k = 0; k < job->k; ++k) {
      prefetch_after(weights + k * 32);
      const __m256 w0 = load_f16(weights + k * 32);
      const __m256 w1 = load_f16(weights + k * 32 + 16);
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m256 value = _mm256_set1_ps(x[r][k]);
        low[r] = _mm256_fmadd_ps(w0, value, low[r]);
        high[r] = _mm256_fmadd_ps(w1, value, high[r]);
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      store_half(job, row + r, panel * kPanel, low[r]);
      store_half(job, row + r, panel * kPanel + kHalf, high[r]);
    }
  }
};

}  // namespace

extern "C" void tz_f16_matmul_m4n16__avx2(const TzMatmul* job) {
  run_tiles<Tile>(job);
}
