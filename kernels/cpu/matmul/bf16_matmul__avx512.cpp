#include "kernels/cpu/matmul/tiles__avx512.hpp"

namespace {

struct Tile {
  template <std::size_t Rows, std::size_t Panels>
  static void run(const TzMatmul* job, std::size_t panel) {
    const std::uint8_t* weights = job->weights + panel * job->panel_bytes;
    const float* x[Rows];
    __m512 sum[Rows][Panels];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const float*>(job->x[r]);
      for (std::size_t p = 0; p < Panels; ++p) sum[r][p] = _mm512_setzero_ps();
    }
    // A dword holds the weights of k (low half) and k + 1; a bf16 is the upper half of its f32.
    for (std::size_t k = 0; k + 2 <= job->k; k += 2) {
      __m512i pair[Panels];
      for (std::size_t p = 0; p < Panels; ++p) {
        const std::uint8_t* line = weights + p * job->panel_bytes + k * 32;
        pair[p] = _mm512_load_si512(line);
        prefetch_dense<Rows>(line);
      }
      add<Rows, Panels>(first_of<Panels>(pair), x, k, sum);
      add<Rows, Panels>(second_of<Panels>(pair), x, k + 1, sum);
    }
    if (job->k % 2 != 0) {
      __m512i pair[Panels];
      const std::size_t k = job->k - 1;
      for (std::size_t p = 0; p < Panels; ++p)
        pair[p] = _mm512_load_si512(weights + p * job->panel_bytes + k * 32);
      add<Rows, Panels>(first_of<Panels>(pair), x, k, sum);
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t p = 0; p < Panels; ++p) store_tile_row(job, r, panel + p, sum[r][p]);
    }
  }

  template <std::size_t Panels>
  struct Weights {
    __m512 of[Panels];
  };

  template <std::size_t Panels>
  static Weights<Panels> first_of(const __m512i* pair) {
    Weights<Panels> w;
    for (std::size_t p = 0; p < Panels; ++p)
      w.of[p] = _mm512_castsi512_ps(_mm512_slli_epi32(pair[p], 16));
    return w;
  }

  template <std::size_t Panels>
  static Weights<Panels> second_of(const __m512i* pair) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    Weights<Panels> w;
    for (std::size_t p = 0; p < Panels; ++p)
      w.of[p] = _mm512_castsi512_ps(_mm512_and_si512(pair[p], upper));
    return w;
  }

  template <std::size_t Rows, std::size_t Panels>
  static void add(const Weights<Panels>& w, const float* const* x, std::size_t k,
                  __m512 (*sum)[Panels]) {
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m512 value = _mm512_set1_ps(x[r][k]);
      for (std::size_t p = 0; p < Panels; ++p)
        sum[r][p] = _mm512_fmadd_ps(w.of[p], value, sum[r][p]);
    }
  }
};

}  // namespace

extern "C" void tz_bf16_matmul_m8n16__avx512(const TzMatmul* job) {
  run_dense_tiles<Tile, 2>(job);
}
