#pragma once
/// \file
/// The tile registers of AMX, as the tile kernels use them: t0 .. t3 hold results of 16 rows by 16
/// outputs, t4 and t5 rows of activations, t6 and t7 weights. Tests compile the kernels over
/// another file with the same functions, so that a CPU without tiles checks them.
///
/// Written as assembly, because the compiler's own functions want a register's number as a literal.
/// Internal linkage: see kernels/cpu/abi.hpp.
#include <cstddef>
#include <cstdint>

#define TZ_TILES_NAME(name) name

namespace {

/// What LDTILECFG reads.
struct TileConfig {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};

static_assert(sizeof(TileConfig) == 64);

/// Activations in rows of `row_bytes` (16 rows), weights in `weight_rows` rows of 64 bytes.
[[maybe_unused]] void tiles_begin(std::uint16_t row_bytes, std::uint8_t weight_rows) {
  TileConfig config{};
  config.palette = 1;
  for (std::size_t tile = 0; tile < 8; ++tile) {
    const bool is_activations = tile == 4 || tile == 5;
    config.row_bytes[tile] = is_activations ? row_bytes : std::uint16_t{64};
    config.rows[tile] = tile >= 6 ? weight_rows : std::uint8_t{16};
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

/// Leaves the registers in their first state: a thread that holds tiles costs more to switch.
[[maybe_unused]] void tiles_end() {
  asm volatile("tilerelease");
}

template <int Tile>
void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}

template <int Tile>
void tile_load(const void* from, std::size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
}

template <int Tile>
void tile_store(void* to, std::size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
}

/// result[m][n] += sum over k of rows[m][k] * weights[k/4][n][k%4], signed bytes into i32.
template <int Result, int Rows, int Weights>
void tile_dot_i8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Result), "i"(Rows), "i"(Weights));
}

/// result[m][n] += sum over k of rows[m][k] * weights[k/2][n][k%2], bf16 into f32.
template <int Result, int Rows, int Weights>
void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Result), "i"(Rows), "i"(Weights));
}

}  // namespace
