#pragma once
/// \file
/// The tile kernels, compiled over emulated tiles: see tile_layer_emulated.hpp.
#include <span>

#include "kernels/cpu/backend/kernel_table.hpp"

namespace tenzro::testing {

/// The lines of tiles.inc under their own names.
[[nodiscard]] std::span<const kernels::TileKernel> emulated_tile_kernels();

/// Whether this CPU runs them: everything around the tiles is AVX-512.
[[nodiscard]] bool can_emulate_tiles();

}  // namespace tenzro::testing
