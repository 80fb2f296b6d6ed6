#include "kernels/cpu/matmul/tiles__avx512.hpp"

// Rows and weights are pairs along K, one dword a pair; an odd last k is padded with zeros on both
// sides.

namespace {

/// Two consecutive activations, in every lane.
__m512bh two(const std::uint16_t* x) {
  int value = 0;
  __builtin_memcpy(&value, x, sizeof value);
  return __builtin_bit_cast(__m512bh, _mm512_set1_epi32(value));
}

struct Tile {
  template <std::size_t Rows, std::size_t Panels>
  static void run(const TzMatmul* job, std::size_t panel) {
    const std::uint8_t* weights = job->weights + panel * job->panel_bytes;
    const std::uint16_t* x[Rows];
    __m512 sum[Rows][Panels];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const std::uint16_t*>(job->x[r]);
      for (std::size_t p = 0; p < Panels; ++p) sum[r][p] = _mm512_setzero_ps();
    }
    for (std::size_t pair = 0; pair < (job->k + 1) / 2; ++pair) {
      __m512bh w[Panels];
      for (std::size_t p = 0; p < Panels; ++p) {
        const std::uint8_t* line = weights + p * job->panel_bytes + pair * 64;
        w[p] = __builtin_bit_cast(__m512bh, _mm512_load_si512(line));
        prefetch_dense<Rows>(line);
      }
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m512bh values = two(x[r] + 2 * pair);
        for (std::size_t p = 0; p < Panels; ++p)
          sum[r][p] = _mm512_dpbf16_ps(sum[r][p], w[p], values);
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t p = 0; p < Panels; ++p) store_tile_row(job, r, panel + p, sum[r][p]);
    }
  }
};

}  // namespace

extern "C" void tz_bf16_dot_m8n16__avx512bf16(const TzMatmul* job) {
  run_dense_tiles<Tile, 2>(job);
}
