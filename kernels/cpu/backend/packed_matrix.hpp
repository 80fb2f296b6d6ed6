#pragma once
/// \file
/// A weight matrix in the kernels' resident layout (kernels/cpu/abi.hpp), immutable once packed.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/compute/weights.hpp"

namespace tenzro::kernels {

/// Outputs that lie side by side in a panel.
inline constexpr std::size_t kPanelOutputs = 16;

/// Bytes of a panel of `cols` inputs, a multiple of 64.
[[nodiscard]] std::size_t panel_bytes(tensor::WeightType type, std::size_t cols);

struct PackedMatrix {
  tensor::WeightType type = tensor::WeightType::f32;
  std::size_t rows = 0;  ///< outputs
  std::size_t cols = 0;  ///< K
  std::size_t panel_bytes = 0;
  std::span<const std::uint8_t> panels;  ///< in its owner's WeightMemory
  std::vector<float> bias;               ///< empty, or padded to whole panels

  [[nodiscard]] std::size_t bytes() const { return panels.size() + bias.size() * sizeof(float); }
};

/// Whether the view's bytes are what its type and shape say, and rows hold whole blocks. Error:
/// runtime.
[[nodiscard]] Status check_matrix(const compute::MatrixView& matrix, std::string_view name);

/// The same without a look at the bytes.
[[nodiscard]] Status check_shape_of(const compute::MatrixView& matrix, std::string_view name);

/// Bytes of all panels, a multiple of 64. Requires check_matrix.
[[nodiscard]] std::size_t packed_bytes(const compute::MatrixView& matrix);

/// Packs into the first packed_bytes(matrix) bytes of `to`, which are zero and 64-byte aligned.
/// Requires check_matrix; `bias` is empty or has one value an output.
[[nodiscard]] PackedMatrix pack_matrix(const compute::MatrixView& matrix,
                                       std::span<const float> bias, std::uint8_t* to,
                                       compute::Executor& executor);

/// As pack_matrix, where the panels at `to` are packed already.
[[nodiscard]] PackedMatrix packed_matrix(const compute::MatrixView& matrix,
                                         std::span<const float> bias, const std::uint8_t* to);

/// Writes one panel. `out` holds panel_bytes zero bytes. Requires check_matrix.
void pack_panel(const compute::MatrixView& matrix, std::size_t panel, std::uint8_t* out);

}  // namespace tenzro::kernels
