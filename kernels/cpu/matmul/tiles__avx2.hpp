#pragma once
/// \file
/// Shared text of the AVX2 matmul kernels: loads, the loops over panels and blocks, and the last
/// step of a tile. Internal linkage: see kernels/cpu/abi.hpp.
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

/// Asks for the line that will be read 8 KiB from here; see tiles__avx512.hpp. Beyond the end it
/// does nothing.
[[maybe_unused]] void prefetch_after(const std::uint8_t* line) {
  _mm_prefetch(line + 8192, _MM_HINT_T1);
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

/// A tile of quantised weights: Block::add<rows>(job, panel, half, block, x, sum) adds one block of
/// 32 along K to the 8 outputs of a half.
template <typename Block>
struct BlockTile {
  template <std::size_t Rows>
  static void run(const TzMatmul* job, std::size_t row, std::size_t panel) {
    const std::uint8_t* weights = job->weights + panel * job->panel_bytes;
    const TzQ8Block* x[Rows];
    __m256 low[Rows];
    __m256 high[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const TzQ8Block*>(job->x[row + r]);
      low[r] = _mm256_setzero_ps();
      high[r] = _mm256_setzero_ps();
    }
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      Block::template add<Rows>(weights, 0, block, x, low);
      Block::template add<Rows>(weights, 1, block, x, high);
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      store_half(job, row + r, panel * kPanel, low[r]);
      store_half(job, row + r, panel * kPanel + kHalf, high[r]);
    }
  }
};

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
