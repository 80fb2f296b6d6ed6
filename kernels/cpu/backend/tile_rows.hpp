#pragma once
/// \file
/// Rows of activations as the tile kernels read them (kernels/cpu/abi.hpp): 16 rows side by side,
/// 32 values along K at a time.
#include <cstddef>
#include <memory>
#include <span>

#include "kernels/cpu/backend/multiplier.hpp"

namespace tenzro::kernels {

/// Memory on cache lines, as tiles and vectors are loaded.
struct alignas(64) CacheLine {
  std::byte bytes[64];
};

using Lines = std::unique_ptr<CacheLine[]>;

[[nodiscard]] Lines make_lines(std::size_t bytes);

/// All bytes of the lines, beyond the first one too.
[[nodiscard]] inline std::byte* bytes_of(const Lines& lines) {
  return static_cast<std::byte*>(static_cast<void*>(lines.get()));
}

/// Bytes of `rows` rows of `k` values as tiles. The format is q8_0 or bf16.
[[nodiscard]] std::size_t tiles_bytes(RowFormat format, std::size_t rows, std::size_t k);

/// Writes the tile of 1 to 16 rows of the format: tiles_bytes(format, 16, k).
void pack_tile(RowFormat format, std::span<const void* const> rows, std::size_t k, std::byte* out);

}  // namespace tenzro::kernels
