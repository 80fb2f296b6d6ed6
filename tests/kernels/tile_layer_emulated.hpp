#pragma once
/// \file
/// kernels/cpu/tiles/tile_layer__amx.hpp, done in plain C++: what each instruction writes, byte for
/// byte for the integers. The dots of bf16 are added up in one order of several that the
/// architecture's text can be read for; only profile `fast` uses them, and it allows any.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define TZ_TILES_NAME(name) emulated_##name

namespace {

struct EmulatedTile {
  std::size_t rows;
  std::size_t row_bytes;
  unsigned char bytes[16][64];
};

thread_local EmulatedTile emulated_tiles[8];

[[maybe_unused]] void tiles_begin(std::uint16_t row_bytes, std::uint8_t weight_rows) {
  std::memset(&emulated_tiles, 0, sizeof emulated_tiles);
  for (std::size_t tile = 0; tile < 8; ++tile) {
    emulated_tiles[tile].rows = tile >= 6 ? weight_rows : 16U;
    emulated_tiles[tile].row_bytes = tile == 4 || tile == 5 ? row_bytes : 64U;
  }
}

[[maybe_unused]] void tiles_end() {
  std::memset(&emulated_tiles, 0xA5, sizeof emulated_tiles);  // whoever still reads finds nonsense
}

template <int Tile>
void tile_zero() {
  std::memset(emulated_tiles[Tile].bytes, 0, sizeof emulated_tiles[Tile].bytes);
}

template <int Tile>
void tile_load(const void* from, std::size_t stride) {
  EmulatedTile& tile = emulated_tiles[Tile];
  std::memset(tile.bytes, 0, sizeof tile.bytes);
  for (std::size_t row = 0; row < tile.rows; ++row) {
    std::memcpy(tile.bytes[row], static_cast<const unsigned char*>(from) + row * stride,
                tile.row_bytes);
  }
}

template <int Tile>
void tile_store(void* to, std::size_t stride) {
  const EmulatedTile& tile = emulated_tiles[Tile];
  for (std::size_t row = 0; row < tile.rows; ++row) {
    std::memcpy(static_cast<unsigned char*>(to) + row * stride, tile.bytes[row], tile.row_bytes);
  }
}

template <int Result, int Rows, int Weights>
void tile_dot_i8() {
  const EmulatedTile& x = emulated_tiles[Rows];
  const EmulatedTile& w = emulated_tiles[Weights];
  for (std::size_t m = 0; m < x.rows; ++m) {
    for (std::size_t n = 0; n < w.row_bytes / 4; ++n) {
      std::int32_t sum = 0;
      std::memcpy(&sum, emulated_tiles[Result].bytes[m] + n * 4, 4);
      for (std::size_t k = 0; k < x.row_bytes; ++k) {
        sum += static_cast<std::int8_t>(x.bytes[m][k]) *
               static_cast<std::int8_t>(w.bytes[k / 4][n * 4 + k % 4]);
      }
      std::memcpy(emulated_tiles[Result].bytes[m] + n * 4, &sum, 4);
    }
  }
}

[[maybe_unused]] float emulated_bf16(const unsigned char* from) {
  const std::uint32_t bits =
      static_cast<std::uint32_t>(from[0]) << 16U | static_cast<std::uint32_t>(from[1]) << 24U;
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <int Result, int Rows, int Weights>
void tile_dot_bf16() {
  const EmulatedTile& x = emulated_tiles[Rows];
  const EmulatedTile& w = emulated_tiles[Weights];
  for (std::size_t m = 0; m < x.rows; ++m) {
    for (std::size_t n = 0; n < w.row_bytes / 4; ++n) {
      float sum = 0.0F;
      std::memcpy(&sum, emulated_tiles[Result].bytes[m] + n * 4, 4);
      for (std::size_t k = 0; k < x.row_bytes / 2; ++k) {
        sum = __builtin_fmaf(emulated_bf16(x.bytes[m] + k * 2),
                             emulated_bf16(w.bytes[k / 2] + n * 4 + k % 2 * 2), sum);
      }
      std::memcpy(emulated_tiles[Result].bytes[m] + n * 4, &sum, 4);
    }
  }
}

}  // namespace
