#include "kernels/cpu/matmul/tiles__avx2.hpp"

namespace {

/// The weights of one k for a whole panel.
struct Weights {
  __m256 low;
  __m256 high;
};

/// A dword holds the weights of an even k (low half) and of the next; a bf16 is the upper half of
/// its f32.
Weights even_of(__m256i low, __m256i high) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
}

Weights odd_of(__m256i low, __m256i high) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  return {_mm256_castsi256_ps(_mm256_and_si256(low, upper)),
          _mm256_castsi256_ps(_mm256_and_si256(high, upper))};
}

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
    for (std::size_t k = 0; k < job->k; k += 2) {
      prefetch_after(weights + k * 32);
      const __m256i pairs0 = load_256(weights + k * 32);
      const __m256i pairs1 = load_256(weights + k * 32 + 32);
      add<Rows>(even_of(pairs0, pairs1), x, k, low, high);
      if (k + 1 == job->k) break;
      add<Rows>(odd_of(pairs0, pairs1), x, k + 1, low, high);
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      store_half(job, row + r, panel * kPanel, low[r]);
      store_half(job, row + r, panel * kPanel + kHalf, high[r]);
    }
  }

  template <std::size_t Rows>
  static void add(Weights w, const float* const* x, std::size_t k, __m256* low, __m256* high) {
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m256 value = _mm256_set1_ps(x[r][k]);
      low[r] = _mm256_fmadd_ps(w.low, value, low[r]);
      high[r] = _mm256_fmadd_ps(w.high, value, high[r]);
    }
  }
};

}  // namespace

extern "C" void tz_bf16_matmul_m4n16__avx2(const TzMatmul* job) {
  run_tiles<Tile>(job);
}
