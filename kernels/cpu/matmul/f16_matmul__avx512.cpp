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
    for (std::size_t k = 0; k < job->k; ++k) {
      __m512 w[Panels];
      for (std::size_t p = 0; p < Panels; ++p) {
        const std::uint8_t* line = weights + p * job->panel_bytes + k * 32;
        w[p] = load_f16(line);
        prefetch_dense<Rows>(line);
      }
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m512 value = _mm512_set1_ps(x[r][k]);
        for (std::size_t p = 0; p < Panels; ++p)
          sum[r][p] = _mm512_fmadd_ps(w[p], value, sum[r][p]);
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t p = 0; p < Panels; ++p) store_tile_row(job, r, panel + p, sum[r][p]);
    }
  }
};

}  // namespace

extern "C" void tz_f16_matmul_m8n16__avx512(const TzMatmul* job) {
  run_dense_tiles<Tile, 2>(job);
}
