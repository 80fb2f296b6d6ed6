#pragma once
/// \file
/// Shared text of the AVX2 matmul kernels: loads, the loop over panels and the last step of a tile.
/// Internal linkage: see kernels/cpu/abi.hpp.
#include <immintrin.h>

#include "kernels/cpu/abi.hpp"

namespace {

constexpr std::size_t kPanel = 16;
constexpr std::size_t kHalf = 8;  ///< outputs in a vector: half a panel

[[maybe_unused]] __m256i load_256(const std::uint8_t* from) {
  return _mm256_load_si256(static_cast<const __m256i*>(static_cast<const void*>(from)));
}

/// 8 f16 as f32.
[[maybe_unused]] __m256 load_f16(const std::uint8_t* from) {
  return _mm256_cvtph_ps(
      _mm_load_si128(static_cast<const __m128i*>(static_cast<const void*>(from))));
}

/// 8 bytes in the low half of a vector.
[[maybe_unused]] __m128i load_bytes(const std::uint8_t* from) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(static_cast<const void*>(from)));
}

/// Four consecutive activations, in every lane.
[[maybe_unused]] __m256i four(const std::int8_t* q) {
  int value = 0;
  __builtin_memcpy(&value, q, sizeof value);
  return _mm256_set1_epi32(value);
}

/// Adds the bias once, after the last k, and writes those of the 8 outputs from `n` on that exist.
[[maybe_unused]] void store_half(const TzMatmul* job, std::size_t row, std::size_t n, __m256 sum) {
  if (n >= job->cols) return;
  if (job->bias != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(job->bias + n));
  float* out = job->out + row * job->out_stride + n;
  const std::size_t count = job->cols - n;
  if (count >= kHalf) return _mm256_storeu_ps(out, sum);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  _mm256_maskstore_ps(out, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes),
                      sum);
}

/// Runs Tile::run<rows>(job, row, panel) over all panels and, for each, over the rows in fours:
/// what 16 registers hold.
template <typename Tile>
void run_tiles(const TzMatmul* job) {
  for (std::size_t panel = 0; panel * kPanel < job->cols; ++panel) {
    std::size_t row = 0;
    for (; row + 4 <= job->rows; row += 4) Tile::template run<4>(job, row, panel);
    switch (job->rows - row) {
      case 3:
        Tile::template run<3>(job, row, panel);
        break;
      case 2:
        Tile::template run<2>(job, row, panel);
        break;
      case 1:
        Tile::template run<1>(job, row, panel);
        break;
      default:
        break;
    }
  }
}

}  // namespace
