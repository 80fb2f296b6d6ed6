#include "kernels/emulated_tiles.hpp"

extern "C" {
#define TZ_TILES(function, type, profile, isa) void emulated_##function(const TzTiles* job);
#include "kernels/cpu/tiles/tiles.inc"
#undef TZ_TILES
}

namespace tenzro::testing {
namespace {

constexpr kernels::TileKernel kEmulated[] = {
#define TZ_TILES(function, type, profile, isa)                                 \
  {"emulated_" #function, tensor::WeightType::type, compute::Profile::profile, \
   kernels::Isa::avx512vnni, emulated_##function},
#include "kernels/cpu/tiles/tiles.inc"
#undef TZ_TILES
};

}  // namespace

std::span<const kernels::TileKernel> emulated_tile_kernels() {
  return kEmulated;
}

bool can_emulate_tiles() {
  return kernels::is_available(kernels::Isa::avx512vnni) && __builtin_cpu_supports("avx512bf16");
}

}  // namespace tenzro::testing
