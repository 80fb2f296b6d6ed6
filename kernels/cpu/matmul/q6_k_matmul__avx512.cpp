#include "kernels/cpu/matmul/panel_layout.hpp"
#include "kernels/cpu/matmul/tiles__avx512.hpp"

namespace {

/// 16 signed bytes as f32.
__m512 widen(const std::uint8_t* bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(bytes)));
}

/// nibbles | (bits & 0x30)
__m512i merged(__m512i nibbles, __m512i bits) {
  return _mm512_ternarylogic_epi32(nibbles, bits, _mm512_set1_epi8(0x30), 0xF8);
}

struct Block {
  template <std::size_t Rows>
  static void add(const std::uint8_t* panel, std::size_t block, const TzQ8Block* const* x,
                  __m512* sum) {
    const std::uint8_t* quants = quants_of<kQ6BlockBytes>(panel, block);
    __m512i first[Rows];
    __m512i second[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      first[r] = _mm512_set1_epi32(x[r][block].minus_32_first);
      second[r] = _mm512_set1_epi32(x[r][block].minus_32_second);
    }
    add_half<Rows>(quants, quants + 128, x, block, 0, first);
    add_half<Rows>(quants + 192, quants + 320, x, block, 16, second);
    const std::uint8_t* scales = scales_of<kQ6BlockBytes>(panel, block);
    const __m512 s0 = widen(scales);
    const __m512 s1 = widen(scales + 16);
    const __m512 d = load_f16(super_of<kQ6BlockBytes>(panel, block));
    for (std::size_t r = 0; r < Rows; ++r) {
      // Every value here is an integer below 2^24, so f32 holds s0·first + s1·second exactly.
      const __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(first[r]), s0);
      const __m512 dot = _mm512_fmadd_ps(_mm512_cvtepi32_ps(second[r]), s1, part);
      sum[r] = _mm512_fmadd_ps(dot, _mm512_mul_ps(d, _mm512_set1_ps(x[r][block].scale)), sum[r]);
    }
  }

  /// 16 values along K from `at` on: two vectors of nibbles, one of the bits above them.
  template <std::size_t Rows>
  static void add_half(const std::uint8_t* low, const std::uint8_t* high, const TzQ8Block* const* x,
                       std::size_t block, std::size_t at, __m512i* dot) {
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i bits = _mm512_load_si512(high);
    const __m512i n0 = _mm512_load_si512(low);
    const __m512i n1 = _mm512_load_si512(low + 64);
    prefetch_k_quant<Rows>(high);
    prefetch_k_quant<Rows>(low);
    prefetch_k_quant<Rows>(low + 64);
    const __m512i w[4] = {
        merged(_mm512_and_si512(n0, nibble), _mm512_slli_epi16(bits, 4)),
        merged(_mm512_and_si512(_mm512_srli_epi16(n0, 4), nibble), _mm512_slli_epi16(bits, 2)),
        merged(_mm512_and_si512(n1, nibble), bits),
        merged(_mm512_and_si512(_mm512_srli_epi16(n1, 4), nibble), _mm512_srli_epi16(bits, 2))};
    for (std::size_t g = 0; g < 4; g += 2) {
      for (std::size_t r = 0; r < Rows; ++r) {
        // Two sums of two products of at most 63·127 stay below 2^15.
        const std::int8_t* q = x[r][block].q + at + 4 * g;
        const __m512i pairs = _mm512_add_epi16(_mm512_maddubs_epi16(w[g], four(q)),
                                               _mm512_maddubs_epi16(w[g + 1], four(q + 4)));
        dot[r] = _mm512_add_epi32(dot[r], _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
      }
    }
  }
};

}  // namespace

extern "C" void tz_q6_k_matmul_m8n16__avx512(const TzMatmul* job) {
  run_block_tiles<Block>(job);
}
