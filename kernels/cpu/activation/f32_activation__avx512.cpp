#include <cstddef>

#include <immintrin.h>

namespace {

using F = __m512;
constexpr std::size_t kLanes = 16;

F splat(float x) {
  return _mm512_set1_ps(x);
}

F add(F a, F b) {
  return _mm512_add_ps(a, b);
}

F sub(F a, F b) {
  return _mm512_sub_ps(a, b);
}

F mul(F a, F b) {
  return _mm512_mul_ps(a, b);
}

F div(F a, F b) {
  return _mm512_div_ps(a, b);
}

F fma(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}

F larger(F a, F x) {
  return _mm512_max_ps(a, x);
}

F smaller(F a, F x) {
  return _mm512_min_ps(a, x);
}

F magnitude(F x) {
  return _mm512_andnot_ps(_mm512_set1_ps(-0.0F), x);
}

F with_sign_of(F magnitude, F x) {
  return _mm512_or_ps(magnitude, _mm512_and_ps(_mm512_set1_ps(-0.0F), x));
}

F where_negative(F x, F a, F b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), b, a);
}

struct Halves {
  F first;
  F second;
};

/// 2^n as two factors that are normal numbers, for n + 1.5·2^23 in an f32.
Halves power_of_two(F shifted) {
  const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(0x4B400000));
  const __m512i half = _mm512_srai_epi32(n, 1);
  const __m512i bias = _mm512_set1_epi32(127);
  const __m512i rest = _mm512_sub_epi32(n, half);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(half, bias), 23)),
          _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(rest, bias), 23))};
}

__mmask16 first_lanes(std::size_t count) {
  return static_cast<__mmask16>((1U << count) - 1U);
}

F load(const float* from, std::size_t count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), from);
}

void store(float* to, F x, std::size_t count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), x);
}

}  // namespace

#include "kernels/cpu/activation/activation_text.hpp"

extern "C" void tz_f32_activation_x16__avx512(const TzActivation* job) {
  activate(job);
}
