#include "tensor_reader.hpp"

#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/tensor/dtype.hpp"

#include "defect_scan.hpp"

namespace tenzro::wire {
namespace {

using compute::MatrixView;
using tensor::shape_text;
using tensor::TensorInfo;
using tensor::WeightType;

tl::unexpected<Error> refused(std::string detail) {
  return fail(ErrorCode::runtime, "", std::move(detail));
}

std::string named(std::string_view name) {
  return "tensor '" + std::string(name) + '\'';
}

tl::unexpected<Error> malformed(std::string_view name, std::string_view why) {
  return refused("quantized " + named(name) + " is malformed: " + std::string(why));
}

std::optional<WeightType> dense_type(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::f32:
      return WeightType::f32;
    case tensor::DType::f16:
      return WeightType::f16;
    case tensor::DType::bf16:
      return WeightType::bf16;
    default:
      return std::nullopt;
  }
}

tl::unexpected<Error> unsupported_dtype(std::string_view name, tensor::DType dtype) {
  return refused(named(name) + " has unsupported dtype " + std::string(tensor::name_of(dtype)) +
                 " (want F32, F16, or BF16)");
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// A decimal number from 1 to 2^32-1, spaces around it allowed.
std::optional<std::uint32_t> dimension(std::string_view text) {
  text = trimmed(text);
  std::uint32_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || value == 0) {
    return std::nullopt;
  }
  return value;
}

bool is_dimension(std::uint64_t value) {
  return value != 0 && std::in_range<std::uint32_t>(value);
}

std::string defect_text(WeightType type, std::span<const std::byte> row) {
  if (tensor::find_defect(type, row) == tensor::RowDefect::q8_minus_128) {
    return "holds the Q8_0 value -128";
  }
  return tensor::is_quantized(type) ? "holds a non-finite block scale" : "holds a non-finite value";
}

Status check_shape(std::string_view name, const MatrixView& matrix, const WantedShape& wanted) {
  if (matrix.rows == wanted.rows.value_or(matrix.rows) &&
      matrix.cols == wanted.cols.value_or(matrix.cols)) {
    return {};
  }
  const auto wanted_text = [](std::optional<std::uint32_t> size) {
    return size ? std::to_string(*size) : std::string("any");
  };
  const std::array<std::uint64_t, 2> shape{matrix.rows, matrix.cols};
  return wrong_shape(name, shape,
                     '[' + wanted_text(wanted.rows) + ", " + wanted_text(wanted.cols) + ']');
}

}  // namespace

Status check_rows(std::string_view name, const MatrixView& matrix, std::uint32_t first_row) {
  for (std::uint32_t i = 0; i < matrix.rows; ++i) {
    const std::span<const std::byte> row = matrix.row(i);
    if (has_defect(matrix.type, row)) {
      return refused(named(name) + " row " + std::to_string(first_row + i) + ' ' +
                     defect_text(matrix.type, row));
    }
  }
  return {};
}

tl::unexpected<Error> wrong_shape(std::string_view name, std::span<const std::uint64_t> shape,
                                  std::string_view expected) {
  return refused(named(name) + " has shape " + shape_text(shape) + ", expected " +
                 std::string(expected));
}

Result<TensorReader> TensorReader::open(std::span<const std::byte> blob) {
  Result<tensor::SafetensorsHeader> header = tensor::parse_safetensors(blob);
  if (!header) return fail(std::move(header.error()));
  return TensorReader(blob, std::move(*header));
}

Result<TensorReader> TensorReader::open_header(std::span<const std::byte> header,
                                               std::uint64_t blob_bytes) {
  Result<tensor::SafetensorsHeader> parsed = tensor::parse_safetensors_header(header, blob_bytes);
  if (!parsed) return fail(std::move(parsed.error()));
  return TensorReader({}, std::move(*parsed));
}

const std::string* TensorReader::metadata(std::string_view key) const {
  const auto found = header_.metadata.find(key);
  return found == header_.metadata.end() ? nullptr : &found->second;
}

Result<const TensorInfo*> TensorReader::find(std::string_view name) const {
  const TensorInfo* info = header_.find(name);
  if (info == nullptr) return refused(named(name) + " missing from blob");
  return info;
}

std::span<const std::byte> TensorReader::bytes_of(const TensorInfo& info) const {
  if (blob_.empty()) return {};
  return blob_.subspan(info.begin, info.bytes());
}

Result<MatrixView> TensorReader::matrix(std::string_view name, const WantedShape& wanted,
                                        Storage storage) const {
  const Result<const TensorInfo*> info = find(name);
  if (!info) return fail(info.error());
  const std::string* quant = nullptr;
  if (storage == Storage::dense_or_quantized) quant = metadata(std::string(name) + ".quant");
  if (quant == nullptr) {
    const TensorInfo& dense_info = **info;
    if (dense_type(dense_info.dtype) &&
        (dense_info.shape.size() != 2 || !is_dimension(dense_info.shape[0]) ||
         !is_dimension(dense_info.shape[1]))) {
      return wrong_shape(name, dense_info.shape, wanted.text);
    }
  }
  Result<MatrixView> view = quant ? quantized(name, **info, *quant) : dense(name, **info);
  if (!view) return view;
  if (Status status = check_shape(name, *view, wanted); !status) return fail(status.error());
  if (blob_.empty()) return view;
  if (Status status = check_rows(name, *view); !status) return fail(status.error());
  return view;
}

Result<MatrixView> TensorReader::dense(std::string_view name, const TensorInfo& info) const {
  const std::optional<WeightType> type = dense_type(info.dtype);
  if (!type) return unsupported_dtype(name, info.dtype);
  // The file's reader has checked that the bytes are those of the shape.
  return MatrixView{.type = *type,
                    .rows = static_cast<std::uint32_t>(info.shape[0]),
                    .cols = static_cast<std::uint32_t>(info.shape[1]),
                    .bytes = bytes_of(info)};
}

Result<MatrixView> TensorReader::quantized(std::string_view name, const TensorInfo& info,
                                           std::string_view quant) const {
  const std::optional<WeightType> type = tensor::weight_type_from_name(quant);
  if (!type || !tensor::is_quantized(*type)) {
    return malformed(name, "unknown quantisation '" + echo(quant) + '\'');
  }
  if (info.dtype != tensor::DType::u8 || info.shape.size() != 1) {
    return malformed(name, "want one dimension of U8, have " +
                               std::string(tensor::name_of(info.dtype)) + ' ' +
                               shape_text(info.shape));
  }
  const std::string* shape = metadata(std::string(name) + ".shape");
  if (shape == nullptr) return malformed(name, "metadata holds no shape");
  const std::size_t comma = shape->find(',');
  const std::string_view shape_view = *shape;
  const auto rows = dimension(shape_view.substr(0, comma));
  const auto cols =
      comma == std::string::npos ? std::nullopt : dimension(shape_view.substr(comma + 1));
  if (!rows || !cols) return malformed(name, "shape '" + echo(*shape) + "' is not \"rows,cols\"");
  if (*cols % tensor::block_elements(*type) != 0) {
    return malformed(name, std::to_string(*cols) + " columns do not divide by the block of " +
                               std::to_string(tensor::block_elements(*type)));
  }
  const auto wanted = checked_mul(*rows, tensor::row_bytes(*type, *cols));
  if (!wanted || *wanted != info.bytes()) {
    return malformed(name, "shape '" + echo(*shape) + "' needs " +
                               (wanted ? std::to_string(*wanted) : "more than 2^64") +
                               " bytes, have " + std::to_string(info.bytes()));
  }
  return MatrixView{.type = *type, .rows = *rows, .cols = *cols, .bytes = bytes_of(info)};
}

Result<std::vector<float>> TensorReader::vector(std::string_view name, std::uint32_t size) const {
  const Result<const TensorInfo*> info = find(name);
  if (!info) return fail(info.error());
  return widened(name, **info, size, bytes_of(**info));
}

Result<std::vector<float>> widened(std::string_view name, const TensorInfo& info,
                                   std::uint32_t size, std::span<const std::byte> bytes) {
  const std::optional<WeightType> type = dense_type(info.dtype);
  if (!type) return unsupported_dtype(name, info.dtype);
  if (info.shape.size() != 1 || info.shape[0] != size)
    return wrong_shape(name, info.shape, '[' + std::to_string(size) + ']');
  // A column of one value a row, so that an error names the element.
  const MatrixView column{.type = *type, .rows = size, .cols = 1, .bytes = bytes};
  if (has_defect(*type, column.bytes)) return fail(check_rows(name, column).error());
  std::vector<float> values(size);
  tensor::convert_to_f32(info.dtype, column.bytes, values);
  return values;
}

Result<std::vector<float>> TensorReader::optional_vector(std::string_view name,
                                                         std::uint32_t size) const {
  if (!has(name)) return std::vector<float>{};
  return vector(name, size);
}

}  // namespace tenzro::wire
