#include <cstring>

#include <immintrin.h>

#include "kernels/cpu/abi.hpp"

namespace {

int largest(__m256i values) {
  __m128i v = _mm_max_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4E));
  v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xB1));
  return _mm_cvtsi128_si32(v);
}

int sum_of(__m256i values) {
  __m128i v = _mm_add_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xB1));
  return _mm_cvtsi128_si32(v);
}

/// Nearest, halves away from zero.
__m256i rounded(__m256 x) {
  const __m256i whole = _mm256_cvttps_epi32(x);
  const __m256 rest = _mm256_sub_ps(x, _mm256_cvtepi32_ps(whole));
  const __m256 half = _mm256_set1_ps(0.5F);
  const __m256i up = _mm256_castps_si256(_mm256_cmp_ps(rest, half, _CMP_GE_OQ));  // -1 where true
  const __m256i down = _mm256_castps_si256(_mm256_cmp_ps(rest, _mm256_set1_ps(-0.5F), _CMP_LE_OQ));
  return _mm256_add_epi32(_mm256_sub_epi32(whole, up), down);
}

float rounded_scale(float d) {
  const float half = _cvtsh_ss(_cvtss_sh(d, _MM_FROUND_TO_NEAREST_INT));
  return half > 65504.0F ? d : half;
}

void quantize_block(const float* from, TzQ8Block* out) {
  __m256 x[4];
  __m256i amax = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_loadu_ps(from + 8 * i);
    amax = _mm256_max_epi32(
        amax, _mm256_and_si256(_mm256_castps_si256(x[i]), _mm256_set1_epi32(0x7FFFFFFF)));
  }
  const int amax_bits = largest(amax);  // magnitudes order as their bits do, NaN above infinity
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
  __m256i q[4];
  for (int i = 0; i < 4; ++i) q[i] = rounded(_mm256_mul_ps(x[i], _mm256_set1_ps(inverse)));
  const int first = sum_of(_mm256_add_epi32(q[0], q[1]));
  const int second = sum_of(_mm256_add_epi32(q[2], q[3]));
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  // The packs work inside 128-bit halves: dwords come as 0 2 4 6 1 3 5 7.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i sorted = _mm256_permutevar8x32_epi32(bytes, order);
  std::memcpy(out->q, &sorted, sizeof out->q);
  out->sum = static_cast<float>(first + second);
  out->minus_128_sum = -128 * (first + second);
  out->minus_32_first = -32 * first;
  out->minus_32_second = -32 * second;
}

}  // namespace

extern "C" void tz_f32_quantize_b32__avx2(const float* x, std::size_t blocks, TzQ8Block* out) {
  for (std::size_t i = 0; i < blocks; ++i) quantize_block(x + i * 32, out + i);
}
