#include "tenzro/tensor/checkpoint_format.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "tenzro/base/bytes.hpp"

#include "f8_e4m3.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::uint64_t kBlock = 128;
constexpr std::uint64_t kGroup = 32;
/// Elements a 32-bit word of int4, and what a nibble is stored above its value.
constexpr std::size_t kInt4WordElements = 8;
constexpr int kInt4Offset = 8;

constexpr std::array<float, 256> make_e4m3_table() {
  std::array<float, 256> table{};
  for (std::size_t code = 0; code < table.size(); ++code) {
    table[code] = decode_f8_e4m3(static_cast<std::uint8_t>(code));
  }
  return table;
}

constexpr std::array<float, 256> kE4M3 = make_e4m3_table();
constexpr std::array<float, 16> kE2M1{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                      -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + static_cast<std::uint64_t>(a % b != 0);
}

/// Whole words and groups a row: needs cols to divide by the group where there are groups.
std::uint64_t value_row_bytes(CheckpointFormat format, std::uint64_t cols) {
  return format == CheckpointFormat::fp8_block128 ? cols : cols / 2;
}

struct ScaleGrid {
  std::uint64_t rows;
  std::uint64_t cols;
};

ScaleGrid scale_grid(const PackedMatrix& matrix) {
  if (matrix.format == CheckpointFormat::fp8_block128) {
    return {divide_up(matrix.rows, kBlock), divide_up(matrix.cols, kBlock)};
  }
  return {matrix.rows, matrix.cols / kGroup};
}

std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const auto ab = checked_mul(a, b);
  return ab ? checked_mul(*ab, c) : std::nullopt;
}

std::string by(std::uint64_t a, std::uint64_t b) {
  return std::to_string(a) + " x " + std::to_string(b);
}

/// Error text of a span of the wrong size.
std::string size_problem(const PackedMatrix& matrix, std::size_t size, std::uint64_t wanted) {
  return std::string(name_of(matrix.format)) + " matrix of " + by(matrix.rows, matrix.cols) +
         " needs " + std::to_string(wanted) + " bytes, not " + std::to_string(size);
}

float scale_at(const PackedMatrix& matrix, std::uint64_t index) {
  const std::size_t bytes = bytes_of(matrix.scale_dtype);
  const std::byte* from = matrix.scales.data() + index * bytes;
  switch (matrix.scale_dtype) {
    case DType::f32:
      return load_f32_le(from);
    case DType::bf16:
      return bf16_to_f32(load_u16_le(from));
    case DType::f16:
      return f16_to_f32(load_u16_le(from));
    default:  // F8_E8M0, by that name or as U8: is_scale_dtype admits no other
      return f8_e8m0_to_f32(std::to_integer<std::uint8_t>(*from));
  }
}

void decode_fp8(const PackedMatrix& matrix, std::uint64_t row, std::span<float> out) {
  const std::byte* values = matrix.values.data() + row * matrix.cols;
  const std::uint64_t first_scale = row / kBlock * divide_up(matrix.cols, kBlock);
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const float scale = scale_at(matrix, first_scale + begin / kBlock);
    const std::size_t end = std::min<std::size_t>(begin + kBlock, out.size());
    for (std::size_t i = begin; i < end; ++i) {
      out[i] = kE4M3[std::to_integer<std::size_t>(values[i])] * scale;
    }
  }
}

void decode_fp4(const PackedMatrix& matrix, std::uint64_t row, std::span<float> out) {
  const std::byte* values = matrix.values.data() + row * (matrix.cols / 2);
  const std::uint64_t first_scale = row * (matrix.cols / kGroup);
  for (std::size_t begin = 0; begin < out.size(); begin += kGroup) {
    const float scale = scale_at(matrix, first_scale + begin / kGroup);
    for (std::size_t i = begin; i < begin + kGroup; i += 2) {
      const auto pair = std::to_integer<std::size_t>(values[i / 2]);
      out[i] = kE2M1[pair & 15U] * scale;
      out[i + 1] = kE2M1[pair >> 4U] * scale;
    }
  }
}

void decode_int4_word(std::uint32_t word, float scale, float* out) {
  for (std::size_t i = 0; i < kInt4WordElements; ++i) {
    const int value = static_cast<int>((word >> (4 * i)) & 15U) - kInt4Offset;
    out[i] = static_cast<float>(value) * scale;
  }
}

void decode_int4(const PackedMatrix& matrix, std::uint64_t row, std::span<float> out) {
  const std::byte* values = matrix.values.data() + row * (matrix.cols / 2);
  const std::uint64_t first_scale = row * (matrix.cols / kGroup);
  for (std::size_t begin = 0; begin < out.size(); begin += kGroup) {
    const float scale = scale_at(matrix, first_scale + begin / kGroup);
    for (std::size_t i = begin; i < begin + kGroup; i += kInt4WordElements) {
      decode_int4_word(load_u32_le(values + i / 2), scale, out.data() + i);
    }
  }
}

}  // namespace

bool is_scale_dtype(CheckpointFormat format, DType dtype) {
  switch (format) {
    case CheckpointFormat::fp8_block128:
      return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f8_e8m0;
    case CheckpointFormat::fp4_group32:
      return dtype == DType::f8_e8m0 || dtype == DType::u8;
    case CheckpointFormat::int4_group32:
      return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
  }
  return false;
}

std::string_view name_of(CheckpointFormat format) {
  switch (format) {
    case CheckpointFormat::fp8_block128:
      return "fp8_block128";
    case CheckpointFormat::fp4_group32:
      return "fp4_group32";
    case CheckpointFormat::int4_group32:
      return "int4_group32";
  }
  return "unknown";
}

Status check_packed_matrix(const PackedMatrix& matrix) {
  const std::string name(name_of(matrix.format));
  if (matrix.cols == 0) return fail(ErrorCode::runtime, "shape", name + " matrix has no columns");
  if (matrix.format != CheckpointFormat::fp8_block128 && matrix.cols % kGroup != 0) {
    return fail(
        ErrorCode::runtime, "shape",
        name + " matrix has " + std::to_string(matrix.cols) + " columns, no multiple of 32");
  }
  if (!is_scale_dtype(matrix.format, matrix.scale_dtype)) {
    return fail(ErrorCode::runtime, "scales",
                name + " scales cannot be " + std::string(name_of(matrix.scale_dtype)));
  }
  const ScaleGrid grid = scale_grid(matrix);
  const auto values = checked_mul(matrix.rows, value_row_bytes(matrix.format, matrix.cols));
  const auto scales = product(grid.rows, grid.cols, bytes_of(matrix.scale_dtype));
  if (!values || !scales) {
    return fail(ErrorCode::runtime, "shape",
                name + " matrix of " + by(matrix.rows, matrix.cols) + " is larger than 2^64 bytes");
  }
  if (matrix.values.size() != *values) {
    return fail(ErrorCode::runtime, "values", size_problem(matrix, matrix.values.size(), *values));
  }
  if (matrix.scales.size() != *scales) {
    return fail(ErrorCode::runtime, "scales", size_problem(matrix, matrix.scales.size(), *scales));
  }
  return {};
}

Status decode_packed_rows(const PackedMatrix& matrix, std::uint64_t first_row,
                          std::span<float> out) {
  if (Status status = check_packed_matrix(matrix); !status) return status;
  if (out.size() % matrix.cols != 0) {
    return fail(ErrorCode::runtime, "rows",
                std::to_string(out.size()) + " elements are no whole number of rows of " +
                    std::to_string(matrix.cols));
  }
  const std::uint64_t count = out.size() / matrix.cols;
  if (first_row > matrix.rows || count > matrix.rows - first_row) {
    return fail(ErrorCode::runtime, "rows",
                std::to_string(count) + " rows from row " + std::to_string(first_row) +
                    " of a matrix of " + by(matrix.rows, matrix.cols));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::span<float> row = out.subspan(i * matrix.cols, matrix.cols);
    switch (matrix.format) {
      case CheckpointFormat::fp8_block128:
        decode_fp8(matrix, first_row + i, row);
        break;
      case CheckpointFormat::fp4_group32:
        decode_fp4(matrix, first_row + i, row);
        break;
      case CheckpointFormat::int4_group32:
        decode_int4(matrix, first_row + i, row);
        break;
    }
  }
  return {};
}

}  // namespace tenzro::tensor
