#pragma once
/// \file
/// Eight floats at a time for the searches of q4_k_search.hpp and q6_k_search.hpp.
#include <immintrin.h>

namespace {

struct Lanes {
  using F = __m256;
  using Mask = __m256;
  using Index = __m256i;
  static constexpr int kCount = 8;

  static F all(float x) { return _mm256_set1_ps(x); }

  static F load(const float* from) { return _mm256_loadu_ps(from); }

  static void store(F x, float* to) { _mm256_storeu_ps(to, x); }

  static Index index(const int* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(from)));
  }

  static F gather(const float* from, Index at) { return _mm256_i32gather_ps(from, at, 4); }

  static F add(F a, F b) { return _mm256_add_ps(a, b); }

  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }

  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }

  static F div(F a, F b) { return _mm256_div_ps(a, b); }

  static F root(F a) { return _mm256_sqrt_ps(a); }

  /// The second where either is NaN, as `a > b ? a : b` has it.
  static F larger(F a, F b) { return _mm256_max_ps(a, b); }

  static F smaller(F a, F b) { return _mm256_min_ps(a, b); }

  static F rounded(F a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  static Mask less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }

  static Mask equal(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }

  static Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }

  static Mask no(Mask a) { return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }

  static bool none(Mask a) { return _mm256_movemask_ps(a) == 0; }

  static F choose(Mask where, F set, F unset) { return _mm256_blendv_ps(unset, set, where); }

  /// Lanes as bytes.
  static void store_bytes(F x, unsigned char* to) {
    const __m256i whole = _mm256_cvttps_epi32(x);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(static_cast<__m128i*>(static_cast<void*>(to)), _mm_packus_epi16(words, words));
  }
};

}  // namespace
