#pragma once
/// \file
/// Sixteen floats at a time for the searches of q4_k_search.hpp and q6_k_search.hpp.
#include <immintrin.h>

namespace {

struct Lanes {
  using F = __m512;
  using Mask = __mmask16;
  using Index = __m512i;
  static constexpr int kCount = 16;

  static F all(float x) { return _mm512_set1_ps(x); }

  static F load(const float* from) { return _mm512_loadu_ps(from); }

  static void store(F x, float* to) { _mm512_storeu_ps(to, x); }

  static Index index(const int* from) { return _mm512_loadu_si512(from); }

  static F gather(const float* from, Index at) { return _mm512_i32gather_ps(at, from, 4); }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }

  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }

  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }

  static F div(F a, F b) { return _mm512_div_ps(a, b); }

  static F root(F a) { return _mm512_sqrt_ps(a); }

  /// The second where either is NaN, as `a > b ? a : b` has it.
  static F larger(F a, F b) { return _mm512_max_ps(a, b); }

  static F smaller(F a, F b) { return _mm512_min_ps(a, b); }

  static F rounded(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  static Mask less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }

  static Mask equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }

  static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }

  static Mask no(Mask a) { return static_cast<Mask>(~a); }

  static bool none(Mask a) { return a == 0; }

  static F choose(Mask where, F set, F unset) { return _mm512_mask_blend_ps(where, unset, set); }

  /// Lanes as bytes.
  static void store_bytes(F x, unsigned char* to) {
    _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(to)),
                     _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x)));
  }
};

}  // namespace
