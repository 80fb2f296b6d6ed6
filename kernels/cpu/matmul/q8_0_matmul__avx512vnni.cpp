#include "kernels/cpu/matmul/tiles__avx512.hpp"

namespace {

struct Tile {
  template <std::size_t Rows, std::size_t Panels>
  static void run(const TzMatmul* job, std::size_t panel) {
    for (std::size_t p = 0; p < Panels; ++p) one_panel<Rows>(job, panel + p);
  }

  template <std::size_t Rows>
  static void one_panel(const TzMatmul* job, std::size_t panel) {
    const std::uint8_t* quants = job->weights + panel * job->panel_bytes;
    const std::uint8_t* scales = quants + job->scales_at;
    const TzQ8Block* x[Rows];
    __m512 sum[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const TzQ8Block*>(job->x[r]);
      sum[r] = _mm512_setzero_ps();
    }
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      __m512i dot[Rows];
      for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm512_set1_epi32(x[r][block].minus_128_sum);
      for (std::size_t g = 0; g < 8; ++g) {
        const __m512i w = _mm512_load_si512(quants + 64 * g);
        for (std::size_t r = 0; r < Rows; ++r)
          dot[r] = _mm512_dpbusd_epi32(dot[r], w, four(x[r][block].q + 4 * g));
      }
      const __m512 d = _mm512_cvtph_ps(load_half(scales));
      for (std::size_t r = 0; r < Rows; ++r) {
        sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]),
                                 _mm512_mul_ps(d, _mm512_set1_ps(x[r][block].scale)), sum[r]);
      }
      quants += 512;
      scales += 32;
    }
    for (std::size_t r = 0; r < Rows; ++r) store_tile_row(job, r, panel, sum[r]);
  }
};

}  // namespace

extern "C" void tz_q8_0_matmul_m8n16__avx512vnni(const TzMatmul* job) {
  run_tiles<Tile>(job);
}
