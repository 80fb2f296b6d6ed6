#include "source_rows.hpp"

#include "tenzro/base/assert.hpp"

namespace tenzro::prepare {
namespace {

using tensor::CheckpointFormat;
using tensor::DType;
using tensor::GgmlType;
using tensor::WeightType;

std::optional<WeightType> weight_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return WeightType::f32;
    case DType::f16:
      return WeightType::f16;
    case DType::bf16:
      return WeightType::bf16;
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<SourceRows> SourceRows::open(const work::SourceMatrix& matrix,
                                    std::span<const BufferRef> parts) {
  SourceRows rows(matrix, parts);
  if (auto status = rows.check(); !status) {
    return fail(ErrorCode::runtime, "", "tensor '" + matrix.tensor + "' " + status.error().detail);
  }
  return rows;
}

Status SourceRows::check() const {
  TENZRO_ASSERT(matrix_->values < parts_.size());
  TENZRO_ASSERT(matrix_->rows > 0);
  TENZRO_ASSERT(stored_row(matrix_->rows - 1) < matrix_->stored_rows);
  if (const auto* format = std::get_if<CheckpointFormat>(&matrix_->storage)) {
    TENZRO_ASSERT(matrix_->scales < parts_.size());
    return check_packed_matrix(packed(*format));
  }
  std::size_t wanted = std::size_t{matrix_->stored_rows} * matrix_->cols;
  if (const auto* type = std::get_if<GgmlType>(&matrix_->storage)) {
    TENZRO_ASSERT(!matrix_->transposed);
    if (matrix_->cols % block_elements(*type) != 0) {
      return fail(ErrorCode::runtime, "", "has rows of no whole block");
    }
    wanted = wanted / block_elements(*type) * block_bytes(*type);
  } else {
    const DType dtype = std::get<DType>(matrix_->storage);
    if (!weight_type_of(dtype)) {
      return fail(
          ErrorCode::runtime, "",
          "has unsupported dtype " + std::string(name_of(dtype)) + " (want F32, F16, or BF16)");
    }
    wanted *= bytes_of(dtype);
  }
  if (values().size() == wanted) return {};
  return fail(
      ErrorCode::runtime, "",
      "gave " + std::to_string(values().size()) + " bytes, expected " + std::to_string(wanted));
}

std::optional<WeightType> SourceRows::own_type() const {
  if (const auto* dtype = std::get_if<DType>(&matrix_->storage)) return weight_type_of(*dtype);
  if (const auto* type = std::get_if<GgmlType>(&matrix_->storage)) {
    return tensor::weight_type_of(*type);
  }
  return std::nullopt;
}

WeightType SourceRows::dense_type(bool dense_f32) const {
  if (const auto* dtype = std::get_if<DType>(&matrix_->storage)) return *weight_type_of(*dtype);
  return dense_f32 ? WeightType::f32 : WeightType::bf16;
}

bool SourceRows::is_contiguous() const {
  return !matrix_->transposed && (matrix_->row_step == 1 || matrix_->rows == 1);
}

std::size_t SourceRows::row_bytes() const {
  if (const auto* dtype = std::get_if<DType>(&matrix_->storage)) {
    return std::size_t{matrix_->cols} * bytes_of(*dtype);
  }
  const auto* type = std::get_if<GgmlType>(&matrix_->storage);
  return type == nullptr ? 0 : matrix_->cols / block_elements(*type) * block_bytes(*type);
}

BufferRef SourceRows::bytes() const {
  TENZRO_ASSERT(is_contiguous());
  const std::size_t row = row_bytes();
  return parts_[matrix_->values].slice(matrix_->first_row * row, matrix_->rows * row);
}

std::optional<std::span<const std::byte>> SourceRows::plain_row(std::size_t row) const {
  if (matrix_->transposed || !std::holds_alternative<DType>(matrix_->storage)) return std::nullopt;
  return values().subspan(stored_row(row) * row_bytes(), row_bytes());
}

tensor::PackedMatrix SourceRows::packed(CheckpointFormat format) const {
  return {.format = format,
          .rows = matrix_->stored_rows,
          .cols = matrix_->cols,
          .values = values(),
          .scales = parts_[matrix_->scales].bytes(),
          .scale_dtype = matrix_->scale_dtype};
}

/// Rows of a transposed matrix are columns of the bytes: a few are gathered at once, so that a
/// cache line that was fetched gives more than one element.
void SourceRows::gather(std::size_t first, std::span<float> out) const {
  const DType dtype = std::get<DType>(matrix_->storage);
  const std::size_t size = bytes_of(dtype);
  const std::size_t count = out.size() / matrix_->cols;
  for (std::size_t col = 0; col < matrix_->cols; ++col) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (col * matrix_->stored_rows + stored_row(first + i)) * size;
      convert_to_f32(dtype, values().subspan(at, size), out.subspan(i * matrix_->cols + col, 1));
    }
  }
}

void SourceRows::read(std::size_t first, std::span<float> out) const {
  if (matrix_->transposed) return gather(first, out);
  const std::size_t cols = matrix_->cols;
  for (std::size_t i = 0; i < out.size() / cols; ++i) {
    const std::span<float> row = out.subspan(i * cols, cols);
    const std::size_t at = stored_row(first + i);
    if (const auto* format = std::get_if<CheckpointFormat>(&matrix_->storage)) {
      const Status status = decode_packed_rows(packed(*format), at, row);
      TENZRO_ASSERT(status.has_value());  // sizes were checked when it was opened
      continue;
    }
    const std::span<const std::byte> bytes = values().subspan(at * row_bytes(), row_bytes());
    if (const auto* type = std::get_if<GgmlType>(&matrix_->storage)) {
      tensor::decode_row(*type, bytes, row);
    } else {
      convert_to_f32(std::get<DType>(matrix_->storage), bytes, row);
    }
  }
}

}  // namespace tenzro::prepare
