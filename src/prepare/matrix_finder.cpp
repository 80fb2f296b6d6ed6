#include "matrix_finder.hpp"

#include <algorithm>

#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::prepare {
namespace {

using tensor::CheckpointFormat;
using tensor::DType;
using tensor::GgmlType;
using work::SourceMatrix;
using work::SourceTensor;
using Shape = std::vector<std::uint64_t>;

constexpr std::uint64_t kGroup = 32;
constexpr std::uint64_t kBlock = 128;
constexpr std::uint64_t kInt4Word = 8;

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

tl::unexpected<Error> refused(const std::string& tensor, const std::string& why) {
  return fail(ErrorCode::runtime, tensor, "tensor '" + tensor + "' " + why);
}

std::string type_name(const SourceTensor& tensor) {
  return std::string(std::visit([](auto type) { return name_of(type); }, tensor.type));
}

bool is_type(const SourceTensor& tensor, DType dtype) {
  const auto* own = std::get_if<DType>(&tensor.type);
  return own != nullptr && *own == dtype;
}

bool is_plain_float(const SourceTensor& tensor) {
  return is_type(tensor, DType::f32) || is_type(tensor, DType::f16) || is_type(tensor, DType::bf16);
}

tl::unexpected<Error> wrong_type(const std::string& name, const SourceTensor& tensor) {
  return refused(name, "has unsupported dtype " + type_name(tensor) + " (want F32, F16, or BF16)");
}

/// What GGUF matrices may be of: "F32, F16, ... or Q2_0".
std::string readable_blocks() {
  std::vector<std::string_view> names;
  for (std::uint32_t number = 0; number <= UINT8_MAX; ++number) {
    const auto type = tensor::ggml_type_from_number(number);
    if (type && tensor::is_decodable(*type)) names.push_back(name_of(*type));
  }
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += name == names.back() ? " or " : ", ";
    text += name;
  }
  return text;
}

tl::unexpected<Error> wrong_block(const std::string& name, const SourceTensor& tensor) {
  return refused(name,
                 "has unsupported type " + type_name(tensor) + " (want " + readable_blocks() + ")");
}

/// `shape` of one matrix, as the tensor must have it.
Shape in_slab(Shape shape, const WantedMatrix& wanted) {
  if (wanted.slabs > 0) shape.insert(shape.begin(), wanted.slabs);
  return shape;
}

Status check_shape(const std::string& name, const SourceTensor& tensor, const Shape& shape) {
  if (tensor.shape == shape) return {};
  return refused(name, "has shape " + tensor::shape_text(tensor.shape) + ", expected " +
                           tensor::shape_text(shape));
}

SourceMatrix all_rows(const std::string& name, const WantedMatrix& wanted) {
  return {.tensor = name, .rows = wanted.rows, .cols = wanted.cols, .stored_rows = wanted.rows};
}

}  // namespace

Result<const SourceTensor*> MatrixFinder::need(const std::string& name) const {
  const SourceTensor* found = find_(name);
  if (found == nullptr) return refused(name, "is missing");
  return found;
}

std::size_t MatrixFinder::part_of(const std::string& name, const SourceTensor& tensor,
                                  const WantedMatrix& wanted) {
  Read read{name, tensor.begin, tensor.end};
  if (wanted.slabs > 0) {
    const std::uint64_t bytes = tensor.bytes() / wanted.slabs;
    read.begin = tensor.begin + bytes * wanted.slab;
    read.end = read.begin + bytes;
  }
  const auto same = std::find_if(reads_.begin(), reads_.end(), [&](const Read& other) {
    return other.tensor == name && other.begin == read.begin && other.end == read.end;
  });
  if (same != reads_.end()) return static_cast<std::size_t>(same - reads_.begin());
  reads_.push_back(std::move(read));
  return reads_.size() - 1;
}

Result<SourceMatrix> MatrixFinder::with_scales(const std::string& name, CheckpointFormat format,
                                               const Shape& shape, const Scales& scales,
                                               const WantedMatrix& wanted) {
  const SourceTensor& values = *find_(name);
  const SourceTensor* scale = find_(scales.name);
  if (scale == nullptr) return refused(name, "has no scale: '" + scales.name + "' is missing");
  if (format != CheckpointFormat::fp8_block128 && wanted.cols % kGroup != 0) {
    return refused(name,
                   "has rows of " + std::to_string(wanted.cols) + ", which do not divide by 32");
  }
  if (auto status = check_shape(name, values, in_slab(shape, wanted)); !status) {
    return fail(status.error());
  }
  if (auto status = check_shape(scales.name, *scale, in_slab(scales.shape, wanted)); !status) {
    return fail(status.error());
  }
  const auto* dtype = std::get_if<DType>(&scale->type);
  if (dtype == nullptr || !tensor::is_scale_dtype(format, *dtype)) {
    return refused(scales.name, "has unsupported dtype " + type_name(*scale) + " for a scale of " +
                                    std::string(name_of(format)));
  }
  SourceMatrix matrix = all_rows(name, wanted);
  matrix.storage = format;
  matrix.values = part_of(name, values, wanted);
  matrix.scales = part_of(scales.name, *scale, wanted);
  matrix.scale_dtype = *dtype;
  return matrix;
}

Result<SourceMatrix> MatrixFinder::packed(const std::string& stem, const WantedMatrix& wanted) {
  const std::string name = stem + ".weight_packed";
  const SourceTensor& values = *find_(name);
  const Scales scales{stem + ".weight_scale", {wanted.rows, wanted.cols / kGroup}};
  if (find_(stem + ".weight_zero_point") != nullptr) {
    return refused(name, "is quantised with zero points, which are not supported");
  }
  if (find_(stem + ".weight_g_idx") != nullptr) {
    return refused(name, "has its columns in another order (weight_g_idx), which is not supported");
  }
  if (is_type(values, DType::i32)) {
    return with_scales(name, CheckpointFormat::int4_group32,
                       {wanted.rows, divide_up(wanted.cols, kInt4Word)}, scales, wanted);
  }
  if (is_type(values, DType::u8)) {
    return with_scales(name, CheckpointFormat::fp4_group32, {wanted.rows, wanted.cols / 2}, scales,
                       wanted);
  }
  return refused(name, "has unsupported dtype " + type_name(values) + " (want I32 or U8)");
}

Result<SourceMatrix> MatrixFinder::blocks(const std::string& stem, const WantedMatrix& wanted) {
  const std::string name = stem + "_blocks";
  if (!is_type(*find_(name), DType::u8)) {
    return refused(name, "has unsupported dtype " + type_name(*find_(name)) + " (want U8)");
  }
  const std::uint64_t groups = wanted.cols / kGroup;
  return with_scales(name, CheckpointFormat::fp4_group32, {wanted.rows, groups, kGroup / 2},
                     {stem + "_scales", {wanted.rows, groups}}, wanted);
}

Result<SourceMatrix> MatrixFinder::dense(const std::string& name, const SourceTensor& tensor,
                                         const WantedMatrix& wanted) {
  const auto* block = std::get_if<GgmlType>(&tensor.type);
  const bool is_readable = block != nullptr ? tensor::is_decodable(*block) : is_plain_float(tensor);
  if (!is_readable) return block == nullptr ? wrong_type(name, tensor) : wrong_block(name, tensor);
  SourceMatrix matrix = all_rows(name, wanted);
  matrix.transposed = wanted.plain_is_transposed;
  Shape shape{wanted.rows, wanted.cols};
  if (matrix.transposed) std::swap(shape[0], shape[1]);
  if (auto status = check_shape(name, tensor, in_slab(shape, wanted)); !status) {
    return fail(status.error());
  }
  if (block != nullptr) {
    matrix.storage = *block;
  } else {
    matrix.storage = std::get<DType>(tensor.type);
  }
  matrix.values = part_of(name, tensor, wanted);
  return matrix;
}

Result<SourceMatrix> MatrixFinder::weight(const std::string& stem, const std::string& name,
                                          const WantedMatrix& wanted) {
  const SourceTensor& values = *find_(name);
  const Shape shape{wanted.rows, wanted.cols};
  if (is_type(values, DType::f8_e4m3)) {
    std::string scale = name + "_scale_inv";
    if (find_(scale) == nullptr && find_(stem + ".scale") != nullptr) scale = stem + ".scale";
    return with_scales(name, CheckpointFormat::fp8_block128, shape,
                       {scale, {divide_up(wanted.rows, kBlock), divide_up(wanted.cols, kBlock)}},
                       wanted);
  }
  if (is_type(values, DType::i8) || is_type(values, DType::u8)) {
    return with_scales(name, CheckpointFormat::fp4_group32, {wanted.rows, wanted.cols / 2},
                       {stem + ".scale", {wanted.rows, wanted.cols / kGroup}}, wanted);
  }
  return dense(name, values, wanted);
}

Result<SourceMatrix> MatrixFinder::matrix(const std::string& stem, const WantedMatrix& wanted) {
  if (find_(stem + ".weight_packed") != nullptr) return packed(stem, wanted);
  if (find_(stem + "_blocks") != nullptr) return blocks(stem, wanted);
  for (const std::string& name : {stem + ".weight", stem}) {
    if (find_(name) != nullptr) return weight(stem, name, wanted);
  }
  return refused(wanted.slabs > 0 ? stem : stem + ".weight", "is missing");
}

Result<SourceMatrix> MatrixFinder::plain(const std::string& name, std::uint32_t rows,
                                         std::uint32_t cols) {
  const auto tensor = need(name);
  if (!tensor) return fail(tensor.error());
  if (rows == 1 && (*tensor)->shape.size() == 1) return vector(name, cols, 0, 0);
  if (std::holds_alternative<DType>((*tensor)->type) && !is_plain_float(**tensor))
    return wrong_type(name, **tensor);
  return dense(name, **tensor, {.rows = rows, .cols = cols});
}

Result<SourceMatrix> MatrixFinder::vector(const std::string& name, std::uint32_t size,
                                          std::uint32_t slabs, std::uint32_t slab) {
  const auto tensor = need(name);
  if (!tensor) return fail(tensor.error());
  if (!is_plain_float(**tensor)) return wrong_type(name, **tensor);
  const WantedMatrix wanted{.rows = 1, .cols = size, .slabs = slabs, .slab = slab};
  if (auto status = check_shape(name, **tensor, in_slab({size}, wanted)); !status) {
    return fail(status.error());
  }
  SourceMatrix matrix = all_rows(name, wanted);
  matrix.storage = std::get<DType>((*tensor)->type);
  matrix.values = part_of(name, **tensor, wanted);
  return matrix;
}

Result<SourceMatrix> MatrixFinder::table(const std::string& name, std::uint32_t cols) {
  const auto tensor = need(name);
  if (!tensor) return fail(tensor.error());
  const SourceTensor& found = **tensor;
  if (!is_type(found, DType::i64) && !is_type(found, DType::i32)) {
    return refused(name, "has unsupported dtype " + type_name(found) + " (want I64 or I32)");
  }
  const bool is_table = found.shape.size() == 2 && found.shape[1] == cols && found.shape[0] > 0 &&
                        found.shape[0] <= UINT32_MAX;
  if (!is_table) {
    return refused(name, "has shape " + tensor::shape_text(found.shape) + ", expected [vocab, " +
                             std::to_string(cols) + "]");
  }
  const WantedMatrix wanted{.rows = static_cast<std::uint32_t>(found.shape[0]), .cols = cols};
  SourceMatrix matrix = all_rows(name, wanted);
  matrix.storage = std::get<DType>(found.type);
  matrix.values = part_of(name, found, wanted);
  return matrix;
}

}  // namespace tenzro::prepare
