#pragma once
/// \file
/// A weight matrix in the kernels' resident layout (kernels/cpu/abi.hpp), immutable once packed.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/compute/weights.hpp"

namespace tenzro::kernels {

/// Outputs that lie side by side in a panel.
inline constexpr std::size_t kPanelOutputs = 16;

struct PanelLayout {
  std::size_t scales_at = 0;
  std::size_t supers_at = 0;
  std::size_t bytes = 0;  ///< whole panel, a multiple of 64
};

[[nodiscard]] PanelLayout panel_layout(tensor::WeightType type, std::size_t cols);

/// Zero bytes at first, 64-byte aligned; large ones on huge pages where the system has them.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  /// Empty where there is no memory.
  [[nodiscard]] static AlignedBytes zeroed(std::size_t size);

  [[nodiscard]] std::uint8_t* data() const { return data_.get(); }

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const;
  };

  std::unique_ptr<std::uint8_t, Free> data_;
  std::size_t size_ = 0;
};

struct PackedMatrix {
  tensor::WeightType type = tensor::WeightType::f32;
  std::size_t rows = 0;  ///< outputs
  std::size_t cols = 0;  ///< K
  PanelLayout layout;
  AlignedBytes panels;
  std::vector<float> bias;  ///< empty, or padded to whole panels

  [[nodiscard]] std::size_t bytes() const { return panels.size() + bias.size() * sizeof(float); }
};

/// Whether the view's bytes are what its type and shape say, and rows hold whole blocks. Error:
/// runtime.
[[nodiscard]] Status check_matrix(const compute::MatrixView& matrix, std::string_view name);

/// Requires check_matrix. `bias` is empty or has one value an output. Error: no_space.
[[nodiscard]] Result<PackedMatrix> pack_matrix(const compute::MatrixView& matrix,
                                               std::span<const float> bias,
                                               compute::Executor& executor);

/// Writes one panel. `out` holds layout.bytes zero bytes. Requires check_matrix.
void pack_panel(const compute::MatrixView& matrix, std::size_t panel, const PanelLayout& layout,
                std::uint8_t* out);

}  // namespace tenzro::kernels
