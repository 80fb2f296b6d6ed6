#include "kernels/cpu/matmul/tiles__avx512.hpp"

namespace {

/// 16 unsigned bytes as f32.
__m512 widen(const std::uint8_t* bytes) {
  const __m128i packed =
      _mm_load_si128(static_cast<const __m128i*>(static_cast<const void*>(bytes)));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(packed));
}

struct Tile {
  template <std::size_t Rows, std::size_t Panels>
  static void run(const TzMatmul* job, std::size_t panel) {
    for (std::size_t p = 0; p < Panels; ++p) one_panel<Rows>(job, panel + p);
  }

  template <std::size_t Rows>
  static void one_panel(const TzMatmul* job, std::size_t panel) {
    const std::uint8_t* quants = job->weights + panel * job->panel_bytes;
    const std::uint8_t* scales = quants + job->scales_at;
    const std::uint8_t* supers = quants + job->supers_at;
    const TzQ8Block* x[Rows];
    __m512 sum[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const TzQ8Block*>(job->x[r]);
      sum[r] = _mm512_setzero_ps();
    }
    const __m512i nibble = _mm512_set1_epi8(15);
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      const std::uint8_t* super = supers + block / 8 * 64;
      const __m512 d = _mm512_mul_ps(_mm512_cvtph_ps(load_half(super)), widen(scales));
      const __m512 m = _mm512_mul_ps(_mm512_cvtph_ps(load_half(super + 32)), widen(scales + 16));
      const __m512 minus_m = _mm512_sub_ps(_mm512_set1_ps(-0.0F), m);
      __m512i dot[Rows];
      for (std::size_t r = 0; r < Rows; ++r) dot[r] = _mm512_setzero_si512();
      for (std::size_t pair = 0; pair < 4; ++pair) {
        const __m512i both = _mm512_load_si512(quants + 64 * pair);
        const __m512i low = _mm512_and_si512(both, nibble);
        const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
        for (std::size_t r = 0; r < Rows; ++r) {
          dot[r] = _mm512_dpbusd_epi32(dot[r], low, four(x[r][block].q + 8 * pair));
          dot[r] = _mm512_dpbusd_epi32(dot[r], high, four(x[r][block].q + 8 * pair + 4));
        }
      }
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m512 dx = _mm512_set1_ps(x[r][block].scale);
        sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), _mm512_mul_ps(d, dx), sum[r]);
        sum[r] =
            _mm512_fmadd_ps(_mm512_set1_ps(x[r][block].sum), _mm512_mul_ps(minus_m, dx), sum[r]);
      }
      quants += 256;
      scales += 32;
    }
    for (std::size_t r = 0; r < Rows; ++r) store_tile_row(job, r, panel, sum[r]);
  }
};

}  // namespace

extern "C" void tz_q4_k_matmul_m8n16__avx512vnni(const TzMatmul* job) {
  run_tiles<Tile>(job);
}
