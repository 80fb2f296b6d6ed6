#pragma once
/// \file
/// Shared text of the AVX-512 matmul kernels: the loops over panels and blocks, and the last step
/// of a tile. Internal linkage: see kernels/cpu/abi.hpp.
#include <immintrin.h>

#include "kernels/cpu/abi.hpp"

namespace {

constexpr std::size_t kPanel = 16;

[[maybe_unused]] __m256i load_256(const std::uint8_t* from) {
  return _mm256_load_si256(static_cast<const __m256i*>(static_cast<const void*>(from)));
}

[[maybe_unused]] __m128i load_128(const std::uint8_t* from) {
  return _mm_load_si128(static_cast<const __m128i*>(static_cast<const void*>(from)));
}

/// 16 f16 as f32.
[[maybe_unused]] __m512 load_f16(const std::uint8_t* from) {
  return _mm512_cvtph_ps(load_256(from));
}

/// Asks for the line that will be read 8 KiB from here. The hardware's own prefetch stays within a
/// page and follows too few streams: with 8 rows and weights from memory this is 269 against 171
/// GFLOP/s. Beyond the end it does nothing.
[[maybe_unused]] void prefetch_after(const std::uint8_t* line) {
  _mm_prefetch(line + 8192, _MM_HINT_T1);
}

/// Four consecutive activations, in every lane.
[[maybe_unused]] __m512i four(const std::int8_t* q) {
  int value = 0;
  __builtin_memcpy(&value, q, sizeof value);
  return _mm512_set1_epi32(value);
}

/// Adds the bias once, after the last k, and writes the outputs that exist.
[[maybe_unused]] void store_tile_row(const TzMatmul* job, std::size_t row, std::size_t panel,
                                     __m512 sum) {
  const std::size_t n = panel * kPanel;
  const std::size_t count = job->cols - n < kPanel ? job->cols - n : kPanel;
  if (job->bias != nullptr) sum = _mm512_add_ps(sum, _mm512_loadu_ps(job->bias + n));
  _mm512_mask_storeu_ps(job->out + row * job->out_stride + n,
                        static_cast<__mmask16>((1U << count) - 1U), sum);
}

/// A tile of quantised weights: Block::add<rows>(job, panel, block, x, sum) adds one block of 32
/// along K.
template <typename Block>
struct BlockTile {
  template <std::size_t Rows, std::size_t Panels>
  static void run(const TzMatmul* job, std::size_t panel) {
    const std::uint8_t* weights = job->weights + panel * job->panel_bytes;
    const TzQ8Block* x[Rows];
    __m512 sum[Panels][Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = static_cast<const TzQ8Block*>(job->x[r]);
      for (std::size_t p = 0; p < Panels; ++p) sum[p][r] = _mm512_setzero_ps();
    }
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      for (std::size_t p = 0; p < Panels; ++p) {
        Block::template add<Rows>(job, weights + p * job->panel_bytes, block, x, sum[p]);
      }
    }
    for (std::size_t p = 0; p < Panels; ++p) {
      for (std::size_t r = 0; r < Rows; ++r) store_tile_row(job, r, panel + p, sum[p][r]);
    }
  }
};

/// Runs Tile::run<rows, panels>(job, first_panel) over all panels. Few rows take several panels at
/// once: enough independent sums to hide the latency of an addition, and enough streams to draw on
/// the memory.
template <typename Tile, std::size_t Rows, std::size_t Panels>
void run_panels(const TzMatmul* job) {
  const std::size_t panels = (job->cols + kPanel - 1) / kPanel;
  std::size_t panel = 0;
  for (; panel + Panels <= panels; panel += Panels) Tile::template run<Rows, Panels>(job, panel);
  if constexpr (Panels > 2) {
    for (; panel + 2 <= panels; panel += 2) Tile::template run<Rows, 2>(job, panel);
  }
  for (; panel < panels; ++panel) Tile::template run<Rows, 1>(job, panel);
}

template <typename Tile>
void run_tiles(const TzMatmul* job) {
  switch (job->rows) {
    case 1:
      return run_panels<Tile, 1, 4>(job);
    case 2:
      return run_panels<Tile, 2, 4>(job);
    case 3:
      return run_panels<Tile, 3, 2>(job);
    case 4:
      return run_panels<Tile, 4, 2>(job);
    case 5:
      return run_panels<Tile, 5, 1>(job);
    case 6:
      return run_panels<Tile, 6, 1>(job);
    case 7:
      return run_panels<Tile, 7, 1>(job);
    default:
      return run_panels<Tile, 8, 1>(job);
  }
}

}  // namespace
