#pragma once
/// \file
/// A half block of q6_k as signed bytes. Internal linkage: see kernels/cpu/abi.hpp.
#include <immintrin.h>

#include "kernels/cpu/abi.hpp"

namespace {

/// nibbles | (bits & 0x30), less 32.
[[maybe_unused]] __m512i merged(__m512i nibbles, __m512i bits) {
  const __m512i value = _mm512_ternarylogic_epi32(nibbles, bits, _mm512_set1_epi8(0x30), 0xF8);
  return _mm512_sub_epi8(value, _mm512_set1_epi8(32));
}

/// 16 values along K: group g = k/4 of the half in w[g], [16 outputs][4].
[[maybe_unused]] void unpack_q6_k_half(const std::uint8_t* from, __m512i* w) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i n0 = _mm512_load_si512(from);
  const __m512i n1 = _mm512_load_si512(from + 64);
  const __m512i bits = _mm512_load_si512(from + 128);
  w[0] = merged(_mm512_and_si512(n0, nibble), _mm512_slli_epi16(bits, 4));
  w[1] = merged(_mm512_and_si512(_mm512_srli_epi16(n0, 4), nibble), _mm512_slli_epi16(bits, 2));
  w[2] = merged(_mm512_and_si512(n1, nibble), bits);
  w[3] = merged(_mm512_and_si512(_mm512_srli_epi16(n1, 4), nibble), _mm512_srli_epi16(bits, 2));
}

}  // namespace
