#include "kernels/cpu/backend/tile_rows.hpp"

#include <algorithm>
#include <cstring>

#include "tenzro/base/assert.hpp"

namespace tenzro::kernels {
namespace {

constexpr std::size_t kBf16TileBytes = kTileRows * kBlock * sizeof(std::uint16_t);

void pack_q8(std::span<const void* const> rows, std::size_t k, std::byte* out) {
  auto* tiles = static_cast<TzQ8Tile*>(static_cast<void*>(out));
  if (rows.size() < kTileRows) std::memset(out, 0, tiles_bytes(RowFormat::q8_0, kTileRows, k));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto* blocks = static_cast<const TzQ8Block*>(rows[r]);
    for (std::size_t block = 0; block < k / kBlock; ++block) {
      std::memcpy(tiles[block].q[r], blocks[block].q, kBlock);
      tiles[block].scale[r] = blocks[block].scale;
      tiles[block].sum[r] = blocks[block].sum;
    }
  }
}

void pack_bf16(std::span<const void* const> rows, std::size_t k, std::byte* out) {
  const std::size_t steps = (k + kBlock - 1) / kBlock;
  if (rows.size() < kTileRows || k % kBlock != 0) std::memset(out, 0, steps * kBf16TileBytes);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto* values = static_cast<const std::uint16_t*>(rows[r]);
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t count = std::min(kBlock, k - step * kBlock);
      std::memcpy(out + step * kBf16TileBytes + r * kBlock * sizeof(std::uint16_t),
                  values + step * kBlock, count * sizeof(std::uint16_t));
    }
  }
}

}  // namespace

Lines make_lines(std::size_t bytes) {
  return std::make_unique_for_overwrite<CacheLine[]>((bytes + sizeof(CacheLine) - 1) /
                                                     sizeof(CacheLine));
}

std::size_t tiles_bytes(RowFormat format, std::size_t rows, std::size_t k) {
  const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
  const std::size_t steps = (k + kBlock - 1) / kBlock;
  return tiles * steps * (format == RowFormat::q8_0 ? sizeof(TzQ8Tile) : kBf16TileBytes);
}

void pack_tile(RowFormat format, std::span<const void* const> rows, std::size_t k, std::byte* out) {
  TENZRO_ASSERT(!rows.empty() && rows.size() <= kTileRows);
  if (format == RowFormat::q8_0) return pack_q8(rows, k, out);
  TENZRO_ASSERT(format == RowFormat::bf16);
  pack_bf16(rows, k, out);
}

}  // namespace tenzro::kernels
