// Compiled with -mavx2: nothing here runs where that is missing. No templates of the library: the
// linker might keep this file's copy of one for everybody.
#include <immintrin.h>

#include "row_passes.hpp"

namespace tenzro::receipts::avx2 {
namespace {

constexpr std::size_t kLanes = 8;

__m256i load(const float* values) {
  return _mm256_castps_si256(_mm256_loadu_ps(values));
}

__m256i magnitude(__m256i bits) {
  return _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
}

/// The upper halves, rounded, as 32-bit integers.
__m256i round_to_bf16(__m256i bits) {
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i is_odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i below_half = _mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(below_half, is_odd), 16);
  const __m256i is_nan = _mm256_cmpgt_epi32(magnitude(bits), _mm256_set1_epi32(0x7F800000));
  return _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), is_nan);
}

}  // namespace

void narrow(const float* values, std::size_t count, std::uint16_t* out) {
  constexpr std::size_t kStep = 2 * kLanes;
  constexpr int kOrder = 0xD8;  // packing takes the halves of the two in turn
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const __m256i packed = _mm256_packus_epi32(round_to_bf16(load(values + i)),
                                               round_to_bf16(load(values + i + kLanes)));
    _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(out + i)),
                        _mm256_permute4x64_epi64(packed, kOrder));
  }
  if (i < count) portable_passes().narrow(values + i, count - i, out + i);
}

void group_maxima(const float* values, std::size_t groups, std::int32_t* out) {
  static_assert(kMagnitudeGroup == 4 * kLanes);
  for (std::size_t group = 0; group < groups; ++group, values += kMagnitudeGroup) {
    const __m256i low = _mm256_max_epi32(magnitude(load(values)), magnitude(load(values + kLanes)));
    const __m256i high = _mm256_max_epi32(magnitude(load(values + 2 * kLanes)),
                                          magnitude(load(values + 3 * kLanes)));
    const __m256i eight = _mm256_max_epi32(low, high);
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1));
    out[group] = _mm_cvtsi128_si32(most);
  }
}

}  // namespace tenzro::receipts::avx2
