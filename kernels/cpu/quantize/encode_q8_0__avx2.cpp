#include <cstring>

#include <immintrin.h>

#include "kernels/cpu/abi.hpp"

namespace {

constexpr std::size_t kElements = 32;
constexpr std::size_t kBytes = 34;

/// As in the avx512 file: nearest, halves away from zero.
__m256i rounded(__m256 x) {
  const __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0x80000000U)));
  const __m256 half = _mm256_castsi256_ps(_mm256_set1_epi32(0x3EFFFFFF));
  return _mm256_cvttps_epi32(_mm256_add_ps(x, _mm256_or_ps(_mm256_and_ps(x, sign), half)));
}

struct Bf16 {
  static constexpr std::size_t kSize = 2;

  static __m256 load(const unsigned char* from, std::size_t first) {
    __m128i bits;
    std::memcpy(&bits, from + first * kSize, sizeof bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
};

struct F32 {
  static constexpr std::size_t kSize = 4;

  static __m256 load(const unsigned char* from, std::size_t first) {
    __m256 values;
    std::memcpy(&values, from + first * kSize, sizeof values);
    return values;
  }
};

/// Bits of the largest magnitude of 32 values.
std::uint32_t largest_of(const __m256* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i most = _mm256_and_si256(_mm256_castps_si256(x[0]), magnitude);
  for (int i = 1; i < 4; ++i) {
    most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(x[i]), magnitude));
  }
  __m128i half = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0xB1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
}

/// Four vectors of integers as 32 signed bytes in order.
__m256i narrowed(const __m256i* q) {
  const __m256i words0 = _mm256_packs_epi32(q[0], q[1]);
  const __m256i words1 = _mm256_packs_epi32(q[2], q[3]);
  const __m256i bytes = _mm256_packs_epi16(words0, words1);
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

template <typename Source>
void encode_block(const unsigned char* from, unsigned char* out) {
  __m256 x[4];
  for (std::size_t i = 0; i < 4; ++i) x[i] = Source::load(from, i * 8);
  const std::uint32_t bits = largest_of(x);
  if (bits >= 0x7F800000U) {
    std::memset(out, 0, kBytes);
    out[1] = 0x7E;
    return;
  }
  float largest = 0;
  std::memcpy(&largest, &bits, sizeof largest);
  const float d = largest / 127.0F;
  const auto scale = static_cast<std::uint16_t>(_cvtss_sh(d, _MM_FROUND_TO_NEAREST_INT));
  std::memcpy(out, &scale, sizeof scale);
  const float reciprocal = 1.0F / d;
  const __m256 factor = _mm256_set1_ps(reciprocal <= 0x1.FFFFFEp127F ? reciprocal : 0.0F);
  __m256i q[4];
  for (int i = 0; i < 4; ++i) q[i] = rounded(_mm256_mul_ps(x[i], factor));
  const __m256i bytes = narrowed(q);
  std::memcpy(out + 2, &bytes, sizeof bytes);
}

template <typename Source>
void encode_row(const void* x, std::size_t blocks, std::uint8_t* out) {
  const auto* from = static_cast<const unsigned char*>(x);
  for (std::size_t b = 0; b < blocks; ++b) {
    encode_block<Source>(from + b * kElements * Source::kSize, out + b * kBytes);
  }
}

}  // namespace

extern "C" void tz_bf16_encode_q8_0__avx2(const void* x, std::size_t blocks, std::uint8_t* out) {
  encode_row<Bf16>(x, blocks, out);
}

extern "C" void tz_f32_encode_q8_0__avx2(const void* x, std::size_t blocks, std::uint8_t* out) {
  encode_row<F32>(x, blocks, out);
}
