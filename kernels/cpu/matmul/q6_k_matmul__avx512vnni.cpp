#include "kernels/cpu/matmul/tiles__avx512.hpp"

namespace {

/// 16 signed bytes as f32.
__m512 widen(const std::uint8_t* bytes) {
  const __m128i packed =
      _mm_load_si128(static_cast<const __m128i*>(static_cast<const void*>(bytes)));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(packed));
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
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      __m512i first[Rows];
      __m512i second[Rows];
      for (std::size_t r = 0; r < Rows; ++r) {
        first[r] = _mm512_set1_epi32(x[r][block].minus_32_first);
        second[r] = _mm512_set1_epi32(x[r][block].minus_32_second);
      }
      add_half<Rows>(quants, quants + 256, x, block, 0, first);
      add_half<Rows>(quants + 128, quants + 320, x, block, 16, second);
      const __m512 s0 = widen(scales);
      const __m512 s1 = widen(scales + 16);
      const __m512 d = _mm512_cvtph_ps(load_half(supers + block / 8 * 32));
      for (std::size_t r = 0; r < Rows; ++r) {
        // Every value here is an integer below 2^24, so f32 holds s0·first + s1·second exactly.
        const __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(first[r]), s0);
        const __m512 dot = _mm512_fmadd_ps(_mm512_cvtepi32_ps(second[r]), s1, part);
        sum[r] = _mm512_fmadd_ps(dot, _mm512_mul_ps(d, _mm512_set1_ps(x[r][block].scale)), sum[r]);
      }
      quants += 384;
      scales += 32;
    }
    for (std::size_t r = 0; r < Rows; ++r) store_tile_row(job, r, panel, sum[r]);
  }

  /// 16 values along K from `at` on: two vectors of nibbles, one of the bits above them.
  template <std::size_t Rows>
  static void add_half(const std::uint8_t* low, const std::uint8_t* high, const TzQ8Block* const* x,
                       std::size_t block, std::size_t at, __m512i* dot) {
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i top = _mm512_set1_epi8(0x30);
    const __m512i bits = _mm512_load_si512(high);
    const __m512i n0 = _mm512_load_si512(low);
    const __m512i n1 = _mm512_load_si512(low + 64);
    const __m512i w[4] = {
        merged(_mm512_and_si512(n0, nibble), _mm512_slli_epi16(bits, 4), top),
        merged(_mm512_and_si512(_mm512_srli_epi16(n0, 4), nibble), _mm512_slli_epi16(bits, 2), top),
        merged(_mm512_and_si512(n1, nibble), bits, top),
        merged(_mm512_and_si512(_mm512_srli_epi16(n1, 4), nibble), _mm512_srli_epi16(bits, 2),
               top)};
    for (std::size_t g = 0; g < 4; ++g) {
      for (std::size_t r = 0; r < Rows; ++r) {
        dot[r] = _mm512_dpbusd_epi32(dot[r], w[g], four(x[r][block].q + at + 4 * g));
      }
    }
  }

  /// nibbles | (bits & top)
  static __m512i merged(__m512i nibbles, __m512i bits, __m512i top) {
    return _mm512_ternarylogic_epi32(nibbles, bits, top, 0xF8);
  }
};

}  // namespace

extern "C" void tz_q6_k_matmul_m8n16__avx512vnni(const TzMatmul* job) {
  run_tiles<Tile>(job);
}
