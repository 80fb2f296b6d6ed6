#include "blob_size.hpp"

#include <algorithm>

#include "tenzro/tensor/block.hpp"

namespace tenzro::prepare {
namespace {

using tensor::WeightType;
using work::SourceMatrix;

/// Of a blob that is not weights: its header.
constexpr std::uint64_t kOverheadBytes = 4096;

/// A row that is not quantised: as it is stored, or decoded.
std::uint64_t dense_row_bytes(const SourceMatrix& matrix, bool dense_f32) {
  const std::uint64_t cols = matrix.cols;
  if (const auto* dtype = std::get_if<tensor::DType>(&matrix.storage))
    return cols * bytes_of(*dtype);
  const auto* type = std::get_if<tensor::GgmlType>(&matrix.storage);
  const auto kept = type == nullptr ? std::nullopt : tensor::weight_type_of(*type);
  if (kept) return row_bytes(*kept, matrix.cols);
  return cols * (dense_f32 ? sizeof(float) : sizeof(std::uint16_t));
}

/// Rows that do not divide by the wanted type's blocks become Q8_0, or stay dense.
std::uint64_t projection_bytes(const SourceMatrix& matrix, const std::optional<WeightType>& wanted,
                               bool dense_f32) {
  if (wanted) {
    for (const WeightType type : {*wanted, WeightType::q8_0}) {
      if (matrix.cols % block_elements(type) == 0)
        return std::uint64_t{matrix.rows} * row_bytes(type, matrix.cols);
    }
  }
  return matrix.rows * dense_row_bytes(matrix, dense_f32);
}

/// Of vectors and tables: no element becomes wider than f32, or than it is.
std::uint64_t plain_bytes(const std::optional<SourceMatrix>& matrix) {
  if (!matrix) return 0;
  const std::uint64_t f32_bytes = std::uint64_t{matrix->cols} * sizeof(float);
  return matrix->rows * std::max(f32_bytes, dense_row_bytes(*matrix, true));
}

}  // namespace

std::uint64_t blob_bytes_max(const work::BuildExpertBlob& job) {
  std::uint64_t bytes = kOverheadBytes;
  if (job.gate) bytes += projection_bytes(*job.gate, job.gate_quant, job.dense_f32);
  bytes += projection_bytes(job.up, job.up_quant, job.dense_f32);
  bytes += projection_bytes(job.down, job.down_quant, job.dense_f32);
  for (const auto* bias : {&job.gate_bias, &job.up_bias, &job.down_bias})
    bytes += plain_bytes(*bias);
  return bytes;
}

std::uint64_t blob_bytes_max(const work::BuildGateBlob& job) {
  std::uint64_t bytes = kOverheadBytes + plain_bytes(job.weight);
  for (const auto* matrix :
       {&job.bias, &job.per_expert_scale, &job.input_scale, &job.table, &job.shared_gate,
        &job.latent_down, &job.latent_norm, &job.latent_up}) {
    bytes += plain_bytes(*matrix);
  }
  return bytes;
}

}  // namespace tenzro::prepare
