#include "tensor_writer.hpp"

#include <utility>

#include "tenzro/base/assert.hpp"

namespace tenzro::wire {
namespace {

tensor::DType dtype_of(tensor::WeightType type) {
  switch (type) {
    case tensor::WeightType::f32:
      return tensor::DType::f32;
    case tensor::WeightType::f16:
      return tensor::DType::f16;
    case tensor::WeightType::bf16:
      return tensor::DType::bf16;
    case tensor::WeightType::q8_0:
    case tensor::WeightType::q4_k:
    case tensor::WeightType::q6_k:
      break;
  }
  return tensor::DType::u8;
}

}  // namespace

void TensorWriter::matrix(std::string_view name, const compute::MatrixView& matrix) {
  TENZRO_ASSERT(matrix.rows != 0);
  TENZRO_ASSERT(matrix.cols != 0);
  TENZRO_ASSERT(matrix.cols % tensor::block_elements(matrix.type) == 0);
  TENZRO_ASSERT(matrix.bytes.size() == matrix.rows * tensor::row_bytes(matrix.type, matrix.cols));
  if (tensor::is_quantized(matrix.type)) {
    const std::string start(name);
    metadata(start + ".quant", std::string(tensor::name_of(matrix.type)));
    metadata(start + ".shape", std::to_string(matrix.rows) + ',' + std::to_string(matrix.cols));
    tensor({.name = start,
            .dtype = tensor::DType::u8,
            .shape = {matrix.bytes.size()},
            .data = matrix.bytes});
    return;
  }
  tensor({.name = std::string(name),
          .dtype = dtype_of(matrix.type),
          .shape = {matrix.rows, matrix.cols},
          .data = matrix.bytes});
}

void TensorWriter::vector(std::string_view name, std::span<const float> values) {
  if (values.empty()) return;
  tensor({.name = std::string(name),
          .dtype = tensor::DType::f32,
          .shape = {values.size()},
          .data = std::as_bytes(values)});
}

void TensorWriter::metadata(std::string_view key, std::string value) {
  metadata_.insert_or_assign(std::string(key), std::move(value));
}

}  // namespace tenzro::wire
