#pragma once
/// \file
/// Shared text of the tile kernels of profile `fast`: bf16 rows times weights as bf16, 32 rows by
/// 32 outputs at a time. Panel::tiles(job, panel, to) gives a panel as [ceil(k/32)][16][16][2]
/// bf16: its own bytes, or `to`, where it was unpacked. Internal linkage: see kernels/cpu/abi.hpp.
#include "kernels/cpu/tiles/tile_loads.hpp"

namespace {

constexpr std::size_t kTileBytes = 1024;  ///< 32 values along K of 16 rows or 16 outputs

using Sums = float[kTileRows][kPanel];

/// Four values along K of 16 outputs, signed bytes [16][4], times a scale an output plus an offset,
/// as two vectors [16][2] of bf16.
[[maybe_unused]] void unpack_four(__m512i bytes, __m512 scale, __m512 offset, std::uint8_t* to) {
  alignas(64) static constexpr std::uint16_t kInterleave[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(kInterleave);
  const __m512i quants[4] = {_mm512_srai_epi32(_mm512_slli_epi32(bytes, 24), 24),
                             _mm512_srai_epi32(_mm512_slli_epi32(bytes, 16), 24),
                             _mm512_srai_epi32(_mm512_slli_epi32(bytes, 8), 24),
                             _mm512_srai_epi32(bytes, 24)};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const __m512 low = _mm512_fmadd_ps(_mm512_cvtepi32_ps(quants[2 * pair]), scale, offset);
    const __m512 high = _mm512_fmadd_ps(_mm512_cvtepi32_ps(quants[2 * pair + 1]), scale, offset);
    const __m512i both = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high, low));
    _mm512_store_si512(to + 64 * pair, _mm512_permutexvar_epi16(order, both));
  }
}

[[maybe_unused]] void write_sums(const TzTiles* job, const Sums& sums, std::size_t row,
                                 std::size_t panel) {
  const std::size_t n = panel * kPanel;
  const std::size_t outputs = job->cols - n < kPanel ? job->cols - n : kPanel;
  const auto present = static_cast<__mmask16>((1U << outputs) - 1U);
  for (std::size_t r = 0; r < kTileRows && row + r < job->rows; ++r) {
    __m512 sum = _mm512_load_ps(sums[r]);
    if (job->bias != nullptr) sum = _mm512_add_ps(sum, _mm512_loadu_ps(job->bias + n));
    _mm512_mask_storeu_ps(job->out + (row + r) * job->out_stride + n, present, sum);
  }
}

template <int Result>
void finish(const TzTiles* job, std::size_t row, std::size_t panel) {
  alignas(64) Sums sums;
  tile_store<Result>(sums, 64);
  write_sums(job, sums, row, panel);
}

/// RowTiles times 16 rows, Panels times 16 outputs; 1 or 2 each.
template <std::size_t RowTiles, std::size_t Panels>
void run_tile(const TzTiles* job, const std::uint8_t* const* w, std::size_t row,
              std::size_t panel) {
  const std::size_t steps = (job->k + 31) / 32;
  const std::uint8_t* x =
      static_cast<const std::uint8_t*>(job->x) + row / kTileRows * steps * kTileBytes;
  tile_zero<0>();
  if constexpr (Panels > 1) tile_zero<1>();
  if constexpr (RowTiles > 1) tile_zero<2>();
  if constexpr (RowTiles > 1 && Panels > 1) tile_zero<3>();
  for (std::size_t at = 0; at < steps * kTileBytes; at += kTileBytes) {
    tile_load<4>(x + at, 64);
    tile_load<6>(w[0] + at, 64);
    tile_dot_bf16<0, 4, 6>();
    if constexpr (Panels > 1) {
      tile_load<7>(w[1] + at, 64);
      tile_dot_bf16<1, 4, 7>();
    }
    if constexpr (RowTiles > 1) {
      tile_load<5>(x + steps * kTileBytes + at, 64);
      tile_dot_bf16<2, 5, 6>();
    }
    if constexpr (RowTiles > 1 && Panels > 1) tile_dot_bf16<3, 5, 7>();
  }
  finish<0>(job, row, panel);
  if constexpr (Panels > 1) finish<1>(job, row, panel + 1);
  if constexpr (RowTiles > 1) finish<2>(job, row + kTileRows, panel);
  if constexpr (RowTiles > 1 && Panels > 1) finish<3>(job, row + kTileRows, panel + 1);
}

template <std::size_t Panels>
void run_rows(const TzTiles* job, const std::uint8_t* const* w, std::size_t panel) {
  std::size_t row = 0;
  for (; row + kTileRows < job->rows; row += 2 * kTileRows) run_tile<2, Panels>(job, w, row, panel);
  if (row < job->rows) run_tile<1, Panels>(job, w, row, panel);
}

template <typename Panel>
void run_bf16_tiles(const TzTiles* job) {
  const std::size_t bytes = (job->k + 31) / 32 * kTileBytes;
  static_assert(2 * kTileBytes <= TZ_TILES_SCRATCH);
  auto* scratch = static_cast<std::uint8_t*>(job->scratch);
  const std::size_t panels = (job->cols + kPanel - 1) / kPanel;
  tiles_begin(64, 16);
  std::size_t panel = 0;
  for (; panel + 2 <= panels; panel += 2) {
    const std::uint8_t* w[2] = {Panel::tiles(job, panel, scratch),
                                Panel::tiles(job, panel + 1, scratch + bytes)};
    run_rows<2>(job, w, panel);
  }
  if (panel < panels) {
    const std::uint8_t* w[1] = {Panel::tiles(job, panel, scratch)};
    run_rows<1>(job, w, panel);
  }
  tiles_end();
}

}  // namespace
