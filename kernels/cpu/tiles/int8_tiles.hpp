#pragma once
/// \file
/// Shared text of the tile kernels of profile `exact`: 16 rows by 16 outputs at a time.
///
/// A panel is unpacked once a call into signed bytes, as the tiles want them, and then meets all
/// rows. A tile instruction makes the integer dots of one block of 32 (or of its halves); they go
/// through memory into vectors, one a row, where the scales meet them in the order that every other
/// kernel has, block by block. Four result tiles are in flight, so that the instruction's latency
/// hides behind the scaling of the blocks before. Internal linkage: see kernels/cpu/abi.hpp.
#include "kernels/cpu/tiles/tile_loads.hpp"

namespace {

constexpr std::size_t kFlight = 4;  ///< result tiles

using Dots = std::int32_t[kTileRows][kPanel];

[[maybe_unused]] __m512 dots_of(const std::int32_t* row) {
  return _mm512_cvtepi32_ps(_mm512_load_si512(row));
}

/// Slot `Slot` of kFlight: part Slot % Parts of block Slot / Parts after the first.
template <typename Panel, int Slot>
void dot_slot(const typename Panel::Block* w, const TzQ8Tile* x, Dots* dots) {
  constexpr std::size_t kBlock = Slot / Panel::kParts;
  constexpr std::size_t kPart = Slot % Panel::kParts;
  tile_zero<Slot>();
  tile_load<4 + Slot % 2>(x[kBlock].q[0] + kPart * (32 / Panel::kParts), 32);
  tile_load<6 + Slot % 2>(w[kBlock].quants + kPart * (512 / Panel::kParts), 64);
  tile_dot_i8<Slot, 4 + Slot % 2, 6 + Slot % 2>();
  tile_store<Slot>(dots[Slot], 64);
}

/// The first Rows of 16 rows times one panel.
template <typename Panel, std::size_t Rows>
void run_tile(const TzTiles* job, const typename Panel::Block* w, std::size_t row,
              std::size_t panel) {
  const std::size_t blocks = job->k / 32;
  constexpr std::size_t kStep = kFlight / Panel::kParts;
  const TzQ8Tile* x = static_cast<const TzQ8Tile*>(job->x) + row / kTileRows * blocks;
  alignas(64) Dots dots[kFlight];
  __m512 sum[Rows];
  for (std::size_t r = 0; r < Rows; ++r) sum[r] = _mm512_setzero_ps();
  for (std::size_t block = 0; block < blocks; block += kStep) {
    const std::size_t count = blocks - block < kStep ? blocks - block : kStep;
    const std::size_t slots = count * Panel::kParts;
    dot_slot<Panel, 0>(w + block, x + block, dots);
    if (slots > 1) dot_slot<Panel, 1>(w + block, x + block, dots);
    if (slots > 2) dot_slot<Panel, 2>(w + block, x + block, dots);
    if (slots > 3) dot_slot<Panel, 3>(w + block, x + block, dots);
    for (std::size_t i = 0; i < count; ++i) {
      Panel::template add<Rows>(w[block + i], x[block + i], dots + i * Panel::kParts, sum);
    }
  }
  const std::size_t n = panel * kPanel;
  const std::size_t outputs = job->cols - n < kPanel ? job->cols - n : kPanel;
  const auto present = static_cast<__mmask16>((1U << outputs) - 1U);
  for (std::size_t r = 0; r < Rows && row + r < job->rows; ++r) {
    if (job->bias != nullptr) sum[r] = _mm512_add_ps(sum[r], _mm512_loadu_ps(job->bias + n));
    _mm512_mask_storeu_ps(job->out + (row + r) * job->out_stride + n, present, sum[r]);
  }
}

/// Panel::unpack(panel, blocks, to) writes a panel's blocks; Panel::add adds one to Rows sums.
template <typename Panel>
void run_int8_tiles(const TzTiles* job) {
  auto* w = static_cast<typename Panel::Block*>(job->scratch);
  static_assert(sizeof(typename Panel::Block) <= TZ_TILES_SCRATCH);
  tiles_begin(32 / Panel::kParts, 8 / Panel::kParts);
  for (std::size_t panel = 0; panel * kPanel < job->cols; ++panel) {
    Panel::unpack(job->weights + panel * job->panel_bytes, job->k / 32, w);
    for (std::size_t row = 0; row < job->rows; row += kTileRows) {
      switch (job->rows - row) {
        case 1:
        case 2:
        case 3:
        case 4:
          run_tile<Panel, 4>(job, w, row, panel);
          break;
        case 5:
        case 6:
        case 7:
        case 8:
          run_tile<Panel, 8>(job, w, row, panel);
          break;
        default:
          run_tile<Panel, 16>(job, w, row, panel);
          break;
      }
    }
  }
  tiles_end();
}

}  // namespace
