#pragma once
/// \file
/// Every CPU kernel as data, read from the .inc tables, and the set that one ISA uses.
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "tenzro/compute/backend.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/tensor/dtype.hpp"

#include "kernels/cpu/abi.hpp"

namespace tenzro::kernels {

struct MatmulKernel {
  std::string_view name;
  tensor::WeightType type;
  Isa isa;
  std::size_t tile_rows;
  std::size_t tile_outputs;
  TzMatmulFn run;
};

/// Profile `fast` for one weight type: another dot, over rows that `narrow` made.
struct FastKernel {
  std::string_view name;
  tensor::WeightType type;
  Isa isa;  ///< the least forced ISA that may use it
  TzMatmulFn run;
  TzNarrowFn narrow;

  /// Whether this CPU can run it; avx512bf16 is in no Isa, so it is asked for apart.
  [[nodiscard]] bool is_available() const;
};

/// From this many rows on a tile kernel is worth its rows of zeros and the unpacking of a panel.
inline constexpr std::size_t kTileRowsMin = 9;
/// Rows of a tile.
inline constexpr std::size_t kTileRows = 16;

/// A kernel by tiles. Profile `exact`: over TzQ8Tile, with the bits of the type's matmul kernel;
/// `fast`: over bf16 rows.
struct TileKernel {
  std::string_view name;
  tensor::WeightType type;
  compute::Profile profile;
  Isa isa;
  TzTilesFn run;
};

struct QuantizeKernel {
  std::string_view name;
  Isa isa;
  TzQuantizeFn run;
};

/// Quantises weights, with the reference's bytes. There is no scalar line: tensor has that.
struct EncodeKernel {
  std::string_view name;
  tensor::DType source;
  tensor::WeightType type;
  Isa isa;
  TzEncodeFn run;
};

struct ActivationKernel {
  std::string_view name;
  Isa isa;
  TzActivationFn run;
};

[[nodiscard]] std::span<const MatmulKernel> matmul_kernels();
[[nodiscard]] std::span<const FastKernel> fast_kernels();
[[nodiscard]] std::span<const TileKernel> tile_kernels();
[[nodiscard]] std::span<const QuantizeKernel> quantize_kernels();
[[nodiscard]] std::span<const ActivationKernel> activation_kernels();
[[nodiscard]] std::span<const EncodeKernel> encode_kernels();

/// For every op the line with the widest ISA up to `isa`.
struct KernelSet {
  Isa isa = Isa::scalar;
  std::array<MatmulKernel, 6> matmul;  ///< one a weight type
  std::optional<FastKernel> fast_bf16;
  std::span<const TileKernel> tiles;  ///< all of them, or none; lives as long as the program
  QuantizeKernel quantize;
  ActivationKernel activation;

  [[nodiscard]] const MatmulKernel& matmul_of(tensor::WeightType type) const;
  /// Null where there is none: then the other kernels take any number of rows.
  [[nodiscard]] const TileKernel* tiles_of(tensor::WeightType type, compute::Profile profile) const;
};

[[nodiscard]] KernelSet kernels_up_to(Isa isa);

}  // namespace tenzro::kernels
