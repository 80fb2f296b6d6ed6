#include "kernels/cpu/backend/packed_matrix.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

#include "kernels/cpu/backend/weight_memory.hpp"

namespace tenzro::kernels {
std::size_t panel_bytes(tensor::WeightType type, std::size_t cols) {
  const std::size_t blocks = cols / 32;
  switch (type) {
    case tensor::WeightType::f32:
      return cols * kPanelOutputs * 4;
    case tensor::WeightType::f16:
      return rounded_up(cols * kPanelOutputs * 2, kCacheLine);
    case tensor::WeightType::bf16:
      return (cols + 1) / 2 * kPanelOutputs * 4;
    case tensor::WeightType::q8_0:
      return (blocks + 1) / 2 * kCacheLine + blocks * 512;
    case tensor::WeightType::q4_k:
      return blocks / 8 * (kCacheLine + 8 * (32 + 256));
    case tensor::WeightType::q6_k:
      return blocks / 8 * (kCacheLine + 8 * (32 + 384));
  }
  TENZRO_ASSERT(false);
  return 0;
}

Status check_shape_of(const compute::MatrixView& matrix, std::string_view name) {
  const std::string where(name);
  if (matrix.rows == 0 || matrix.cols == 0)
    return fail(ErrorCode::runtime, where, "has no elements");
  if (matrix.cols % tensor::block_elements(matrix.type) != 0) {
    return fail(ErrorCode::runtime, where,
                std::to_string(matrix.cols) + " columns are not whole " +
                    std::string(tensor::name_of(matrix.type)) + " blocks");
  }
  return {};
}

Status check_matrix(const compute::MatrixView& matrix, std::string_view name) {
  if (auto checked = check_shape_of(matrix, name); !checked) return checked;
  const std::string where(name);
  const auto expected = checked_mul(matrix.rows, tensor::row_bytes(matrix.type, matrix.cols));
  if (!expected || *expected != matrix.bytes.size()) {
    return fail(ErrorCode::runtime, where,
                std::to_string(matrix.bytes.size()) + " bytes do not fit the shape " +
                    std::to_string(matrix.rows) + " x " + std::to_string(matrix.cols) + " of " +
                    std::string(tensor::name_of(matrix.type)));
  }
  return {};
}

std::size_t packed_bytes(const compute::MatrixView& matrix) {
  const std::size_t panels = (matrix.rows + kPanelOutputs - 1) / kPanelOutputs;
  return panels * panel_bytes(matrix.type, matrix.cols);
}

PackedMatrix pack_matrix(const compute::MatrixView& matrix, std::span<const float> bias,
                         std::uint8_t* to, compute::Executor& executor) {
  const std::size_t stride = panel_bytes(matrix.type, matrix.cols);
  executor.parallel_for(packed_bytes(matrix) / stride,
                        [&](std::size_t panel) { pack_panel(matrix, panel, to + panel * stride); });
  return packed_matrix(matrix, bias, to);
}

PackedMatrix packed_matrix(const compute::MatrixView& matrix, std::span<const float> bias,
                           const std::uint8_t* to) {
  TENZRO_ASSERT(bias.empty() || bias.size() == matrix.rows);
  const std::size_t bytes = packed_bytes(matrix);
  PackedMatrix packed{.type = matrix.type,
                      .rows = matrix.rows,
                      .cols = matrix.cols,
                      .panel_bytes = panel_bytes(matrix.type, matrix.cols),
                      .panels = {to, bytes},
                      .bias = {bias.begin(), bias.end()}};
  if (!bias.empty()) packed.bias.resize(rounded_up(bias.size(), kPanelOutputs), 0.0F);
  return packed;
}

}  // namespace tenzro::kernels
