#include <cstring>

#include <immintrin.h>

#include "kernels/cpu/abi.hpp"

// Sixteen blocks at a time: their largest magnitudes become scales and inverses in one division
// each, instead of two a block.
namespace {

constexpr std::size_t kAtOnce = 16;
constexpr std::size_t kElements = 32;
constexpr std::size_t kBytes = 34;

/// Nearest, halves away from zero: the largest float below one half, with x's sign, is added, and
/// the rest cut off.
__m512i rounded(__m512 x) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000U));
  const __m512i half = _mm512_set1_epi32(0x3EFFFFFF);
  // (x & sign) | half
  const __m512i to_add = _mm512_ternarylogic_epi32(_mm512_castps_si512(x), sign, half, 0xEA);
  return _mm512_cvttps_epi32(_mm512_add_ps(x, _mm512_castsi512_ps(to_add)));
}

struct Bf16 {
  static constexpr std::size_t kSize = 2;

  /// Bits of the largest magnitude, as f32.
  static std::uint32_t largest(const unsigned char* from) {
    const __m512i all = _mm512_and_si512(_mm512_loadu_si512(from), _mm512_set1_epi16(0x7FFF));
    const __m256i half =
        _mm256_max_epu16(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    const __m128i quarter =
        _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
    const auto word = static_cast<std::uint32_t>(_mm_cvtsi128_si32(least)) & 0xFFFFU;
    return (word ^ 0xFFFFU) << 16U;
  }

  /// Even and odd elements apart: a 32-bit lane holds one of each, so widening is one operation
  /// each, and the signed bytes meet again in the lane's low half.
  static void quantize(const unsigned char* from, __m512 factor, unsigned char* to) {
    const __m512i pairs = _mm512_loadu_si512(from);
    const __m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    const __m512 odd = _mm512_castsi512_ps(
        _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
    const __m512i q_even = rounded(_mm512_mul_ps(even, factor));
    const __m512i q_odd = _mm512_slli_epi32(rounded(_mm512_mul_ps(odd, factor)), 8);
    // (q_even & 0xFF) | q_odd
    const __m512i both = _mm512_ternarylogic_epi32(q_even, _mm512_set1_epi32(0xFF), q_odd, 0xEA);
    const __m256i bytes = _mm512_cvtepi32_epi16(both);
    std::memcpy(to, &bytes, sizeof bytes);
  }
};

struct F32 {
  static constexpr std::size_t kSize = 4;

  static std::uint32_t largest(const unsigned char* from) {
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    return static_cast<std::uint32_t>(_mm512_reduce_max_epi32(
        _mm512_max_epi32(_mm512_and_si512(_mm512_loadu_si512(from), magnitude),
                         _mm512_and_si512(_mm512_loadu_si512(from + 64), magnitude))));
  }

  static void quantize(const unsigned char* from, __m512 factor, unsigned char* to) {
    for (std::size_t half = 0; half < 2; ++half) {
      const __m512 x = _mm512_loadu_ps(from + half * 64);
      const __m128i bytes = _mm512_cvtepi32_epi8(rounded(_mm512_mul_ps(x, factor)));
      std::memcpy(to + half * sizeof bytes, &bytes, sizeof bytes);
    }
  }
};

template <typename Source>
void encode(const unsigned char* from, std::size_t count, unsigned char* out) {
  alignas(64) std::uint32_t largest[kAtOnce] = {};
  for (std::size_t b = 0; b < count; ++b) {
    largest[b] = Source::largest(from + b * kElements * Source::kSize);
  }
  const __m512i bits = _mm512_load_si512(largest);
  const __m512 d = _mm512_div_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(127.0F));
  const __m512 reciprocal = _mm512_div_ps(_mm512_set1_ps(1.0F), d);
  // Zeros where d is zero or so small that its inverse is infinite, and where it is not finite.
  const __mmask16 is_usable =
      _mm512_cmp_ps_mask(reciprocal, _mm512_set1_ps(0x1.FFFFFEp127F), _CMP_LE_OQ);
  const __mmask16 is_finite = _mm512_cmplt_epu32_mask(bits, _mm512_set1_epi32(0x7F800000));
  alignas(64) float inverse[kAtOnce];
  _mm512_store_ps(inverse, _mm512_maskz_mov_ps(is_usable & is_finite, reciprocal));
  alignas(32) std::uint16_t scale[kAtOnce];
  const __m256i halves = _mm512_cvtps_ph(d, _MM_FROUND_TO_NEAREST_INT);
  const __m256i marked =
      _mm256_mask_mov_epi16(halves, static_cast<__mmask16>(~is_finite), _mm256_set1_epi16(0x7E00));
  std::memcpy(scale, &marked, sizeof scale);
  for (std::size_t b = 0; b < count; ++b) {
    const unsigned char* block = from + b * kElements * Source::kSize;
    const __m512 factor = _mm512_set1_ps(inverse[b]);
    unsigned char* to = out + b * kBytes;
    std::memcpy(to, &scale[b], sizeof scale[b]);
    if ((is_finite >> b & 1U) == 0) {
      std::memset(to + 2, 0, kElements);
      continue;
    }
    Source::quantize(block, factor, to + 2);
  }
}

template <typename Source>
void encode_row(const void* x, std::size_t blocks, std::uint8_t* out) {
  const auto* from = static_cast<const unsigned char*>(x);
  for (std::size_t b = 0; b < blocks; b += kAtOnce) {
    const std::size_t count = blocks - b < kAtOnce ? blocks - b : kAtOnce;
    encode<Source>(from + b * kElements * Source::kSize, count, out + b * kBytes);
  }
}

}  // namespace

extern "C" void tz_bf16_encode_q8_0__avx512(const void* x, std::size_t blocks, std::uint8_t* out) {
  encode_row<Bf16>(x, blocks, out);
}

extern "C" void tz_f32_encode_q8_0__avx512(const void* x, std::size_t blocks, std::uint8_t* out) {
  encode_row<F32>(x, blocks, out);
}
