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

/// Asks for the line that will be read 8 KiB from here. Beyond the end it does nothing.
///
/// One or two rows ask for nothing: the hardware follows a panel by itself, and asking as well
/// halves what is drawn (Zen 4). More rows spend so long on a line that it does not run far enough
/// ahead.
template <std::size_t Rows>
void prefetch_dense(const std::uint8_t* line) {
  if constexpr (Rows > 2) _mm_prefetch(line + 8192, _MM_HINT_T1);
}

/// The same for quantised weights, in two steps: from memory one page ahead, and from L2 half a
/// page. 8 rows of q8_0 from memory: 271 GFLOP/s; 163 without, 167 with the second step alone, 220
/// with the first.
[[maybe_unused]] void prefetch_twice(const std::uint8_t* line) {
  _mm_prefetch(line + 4096, _MM_HINT_T1);
  _mm_prefetch(line + 2048, _MM_HINT_T0);
}

template <std::size_t Rows>
void prefetch_q8_0(const std::uint8_t* line) {
  if constexpr (Rows > 4) prefetch_twice(line);
}

template <std::size_t Rows>
void prefetch_k_quant(const std::uint8_t* line) {
  if constexpr (Rows > 2) prefetch_twice(line);
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
        Block::template add<Rows>(weights + p * job->panel_bytes, block, x, sum[p]);
      }
    }
    for (std::size_t p = 0; p < Panels; ++p) {
      for (std::size_t r = 0; r < Rows; ++r) store_tile_row(job, r, panel + p, sum[p][r]);
    }
  }
};

/// Bytes of a stream that are asked for at once where it begins: the hardware takes some lines to
/// see that there is one.
constexpr std::size_t kStreamBegin = 4096;

/// Runs Tile::run<rows, panels>(job, first_panel) over all panels.
template <typename Tile, std::size_t Rows, std::size_t Panels>
void run_panels(const TzMatmul* job) {
  const std::size_t panels = (job->cols + kPanel - 1) / kPanel;
  if constexpr (Rows <= 2) {
    for (std::size_t at = 0; at < kStreamBegin; at += 64)
      _mm_prefetch(job->weights + at, _MM_HINT_T1);
  }
  std::size_t panel = 0;
  for (; panel + Panels <= panels; panel += Panels) Tile::template run<Rows, Panels>(job, panel);
  for (; panel < panels; ++panel) Tile::template run<Rows, 1>(job, panel);
}

template <typename Tile>
void run_many(const TzMatmul* job) {
  switch (job->rows) {
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

/// Dense weights: few rows take several panels at once, enough independent sums to hide the latency
/// of an addition.
template <typename Tile, std::size_t PanelsOfOneRow>
void run_dense_tiles(const TzMatmul* job) {
  switch (job->rows) {
    case 1:
      return run_panels<Tile, 1, PanelsOfOneRow>(job);
    case 2:
      return run_panels<Tile, 2, PanelsOfOneRow>(job);
    case 3:
      return run_panels<Tile, 3, 2>(job);
    case 4:
      return run_panels<Tile, 4, 2>(job);
    default:
      return run_many<Tile>(job);
  }
}

/// Quantised weights: the dots of one block do not wait for those before, so one panel, which is
/// one stream, is enough for any number of rows.
template <typename Block>
void run_block_tiles(const TzMatmul* job) {
  switch (job->rows) {
    case 1:
      return run_panels<BlockTile<Block>, 1, 1>(job);
    case 2:
      return run_panels<BlockTile<Block>, 2, 1>(job);
    case 3:
      return run_panels<BlockTile<Block>, 3, 1>(job);
    case 4:
      return run_panels<BlockTile<Block>, 4, 1>(job);
    default:
      return run_many<BlockTile<Block>>(job);
  }
}

}  // namespace
