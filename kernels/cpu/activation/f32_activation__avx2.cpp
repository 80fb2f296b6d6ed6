#include <cstddef>

#include <immintrin.h>

namespace {

using F = __m256;
constexpr std::size_t kLanes = 8;

F splat(float x) {
  return _mm256_set1_ps(x);
}

F add(F a, F b) {
  return _mm256_add_ps(a, b);
}

F sub(F a, F b) {
  return _mm256_sub_ps(a, b);
}

F mul(F a, F b) {
  return _mm256_mul_ps(a, b);
}

F div(F a, F b) {
  return _mm256_div_ps(a, b);
}

F fma(F a, F b, F c) {
  return _mm256_fmadd_ps(a, b, c);
}

F larger(F a, F x) {
  return _mm256_max_ps(a, x);
}

F smaller(F a, F x) {
  return _mm256_min_ps(a, x);
}

F magnitude(F x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), x);
}

F with_sign_of(F magnitude, F x) {
  return _mm256_or_ps(magnitude, _mm256_and_ps(_mm256_set1_ps(-0.0F), x));
}

F where_negative(F x, F a, F b) {
  return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
}

struct Halves {
  F first;
  F second;
};

/// 2^n as two factors that are normal numbers, for n + 1.5·2^23 in an f32.
Halves power_of_two(F shifted) {
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4B400000));
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i rest = _mm256_sub_epi32(n, half);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23))};
}

__m256i first_lanes(std::size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

F load(const float* from, std::size_t count) {
  return count == kLanes ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, first_lanes(count));
}

void store(float* to, F x, std::size_t count) {
  if (count == kLanes) return _mm256_storeu_ps(to, x);
  _mm256_maskstore_ps(to, first_lanes(count), x);
}

}  // namespace

#include "kernels/cpu/activation/activation_text.hpp"

extern "C" void tz_f32_activation_x8__avx2(const TzActivation* job) {
  activate(job);
}
