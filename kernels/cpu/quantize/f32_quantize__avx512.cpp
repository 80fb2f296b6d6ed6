#include <cstring>

#include <immintrin.h>

#include "kernels/cpu/abi.hpp"

namespace {

/// Nearest, halves away from zero.
__m512i rounded(__m512 x) {
  const __m512i whole = _mm512_cvttps_epi32(x);
  const __m512 rest = _mm512_sub_ps(x, _mm512_cvtepi32_ps(whole));
  const __m512i one = _mm512_set1_epi32(1);
  const __mmask16 up = _mm512_cmp_ps_mask(rest, _mm512_set1_ps(0.5F), _CMP_GE_OQ);
  const __mmask16 down = _mm512_cmp_ps_mask(rest, _mm512_set1_ps(-0.5F), _CMP_LE_OQ);
  return _mm512_mask_sub_epi32(_mm512_mask_add_epi32(whole, up, whole, one), down, whole, one);
}

float rounded_scale(float d) {
  const float half = _cvtsh_ss(_cvtss_sh(d, _MM_FROUND_TO_NEAREST_INT));
  return half > 65504.0F ? d : half;
}

void quantize_block(const float* from, TzQ8Block* out) {
  const __m512 x0 = _mm512_loadu_ps(from);
  const __m512 x1 = _mm512_loadu_ps(from + 16);
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  const int amax_bits =  // magnitudes order as their bits do, NaN above infinity
      _mm512_reduce_max_epi32(
          _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(x0), magnitude),
                           _mm512_and_si512(_mm512_castps_si512(x1), magnitude)));
  std::memset(out, 0, sizeof *out);
  if (amax_bits >= 0x7F800000) {
    out->scale = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(0x7FC00000)));
    return;
  }
  const float d = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(amax_bits))) / 127.0F;
  out->scale = rounded_scale(d);
  const float inverse = 1.0F / d;
  if (inverse > 0x1.FFFFFEp127F)
    return;  // d is zero or nearly: the scale is zero too, so q does not matter
  const __m512i q0 = rounded(_mm512_mul_ps(x0, _mm512_set1_ps(inverse)));
  const __m512i q1 = rounded(_mm512_mul_ps(x1, _mm512_set1_ps(inverse)));
  const int first = _mm512_reduce_add_epi32(q0);
  const int second = _mm512_reduce_add_epi32(q1);
  const __m128i bytes[2] = {_mm512_cvtepi32_epi8(q0), _mm512_cvtepi32_epi8(q1)};
  std::memcpy(out->q, bytes, sizeof out->q);
  out->sum = static_cast<float>(first + second);
  out->minus_128_sum = -128 * (first + second);
  out->minus_32_first = -32 * first;
  out->minus_32_second = -32 * second;
}

}  // namespace

extern "C" void tz_f32_quantize_b32__avx512(const float* x, std::size_t blocks, TzQ8Block* out) {
  for (std::size_t i = 0; i < blocks; ++i) quantize_block(x + i * 32, out + i);
}
