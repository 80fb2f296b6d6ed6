#include "encode_matrix.hpp"

#include <algorithm>

#include "source_rows.hpp"

namespace tenzro::prepare {
namespace {

using tensor::DType;
using tensor::WeightType;

constexpr std::size_t kRowsPerSlice = 16;

/// What the projection becomes: the wanted type, Q8_0, or a dense one; or an error under `strict`.
Result<WeightType> choose_type(const SourceRows& source, std::optional<WeightType> wanted,
                               const EncodeOptions& options) {
  const WeightType plain = source.own_type().value_or(source.dense_type(options.dense_f32));
  if (!wanted) return plain;
  const work::SourceMatrix& matrix = source.matrix();
  if (matrix.cols % block_elements(*wanted) == 0) return *wanted;
  if (options.strict) {
    return fail(ErrorCode::runtime, options.label,
                "tensor '" + matrix.tensor + "' has rows of " + std::to_string(matrix.cols) +
                    ", which do not divide by the " + std::to_string(block_elements(*wanted)) +
                    " of " + std::string(name_of(*wanted)) + " (strict)");
  }
  if (matrix.cols % block_elements(WeightType::q8_0) == 0) return WeightType::q8_0;
  return plain;
}

/// Calls body(first, last) for slices of the rows, on the executor, and returns the least row that
/// any body gave; or `rows`.
template <typename Body>
std::size_t least_of_slices(std::size_t rows, compute::Executor& executor, const Body& body) {
  const std::size_t slices = (rows + kRowsPerSlice - 1) / kRowsPerSlice;
  std::vector<std::size_t> found(slices, rows);
  executor.parallel_for(slices, [&](std::size_t slice) {
    const std::size_t first = slice * kRowsPerSlice;
    found[slice] = std::min(rows, body(first, std::min(rows, first + kRowsPerSlice)));
  });
  return slices == 0 ? rows : *std::min_element(found.begin(), found.end());
}

tl::unexpected<Error> unfit(const EncodeOptions& options, const SourceRows& source, std::size_t row,
                            tensor::RowDefect defect) {
  const std::string what = defect == tensor::RowDefect::non_finite
                               ? "has a non-finite value in row "
                               : "has a Q8_0 value of -128 in row ";
  return fail(ErrorCode::runtime, options.label,
              "tensor '" + source.matrix().tensor + "' " + what + std::to_string(row));
}

/// The source's own bytes, checked.
Result<EncodedMatrix> keep(const SourceRows& source, WeightType type, const EncodeOptions& options,
                           compute::Executor& executor) {
  EncodedMatrix kept{
      .view = {.type = type, .rows = source.matrix().rows, .cols = source.matrix().cols},
      .bytes = source.bytes()};
  kept.view.bytes = kept.bytes.bytes();
  const std::size_t rows = kept.view.rows;
  const std::size_t bad = least_of_slices(rows, executor, [&](std::size_t row, std::size_t last) {
    while (row < last && !find_defect(type, kept.view.row(static_cast<std::uint32_t>(row)))) ++row;
    return row < last ? row : rows;
  });
  if (bad == rows) return kept;
  return unfit(options, source, bad,
               *find_defect(type, kept.view.row(static_cast<std::uint32_t>(bad))));
}

/// Rows [first, last).
struct Slice {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// Encodes these rows into `out` (all rows of the matrix).
void encode_slice(const SourceRows& source, WeightType type, std::span<const float> importance,
                  const tensor::RowEncoder& encoder, Slice slice, std::span<std::byte> out) {
  const std::size_t cols = source.matrix().cols;
  const std::size_t stride = row_bytes(type, cols);
  const bool is_weighted = !importance.empty();
  std::vector<float> values;
  if (is_weighted || !source.plain_row(slice.first)) {
    values.resize((slice.last - slice.first) * cols);
    source.read(slice.first, values);
  }
  for (std::size_t row = slice.first; row < slice.last; ++row) {
    const std::span<std::byte> to = out.subspan(row * stride, stride);
    if (values.empty()) {
      encoder.encode(type, std::get<DType>(source.matrix().storage), *source.plain_row(row), to);
      continue;
    }
    const auto from = std::span<const float>(values).subspan((row - slice.first) * cols, cols);
    if (is_weighted) {
      encode_row_weighted(type, from, importance, to);
    } else {
      encoder.encode(type, DType::f32, std::as_bytes(from), to);
    }
  }
}

Result<EncodedMatrix> convert(const SourceRows& source, WeightType type,
                              std::span<const float> importance, const EncodeOptions& options,
                              const Encoders& encoders) {
  const work::SourceMatrix& matrix = source.matrix();
  const std::size_t stride = row_bytes(type, matrix.cols);
  EncodedMatrix made{.view = {.type = type, .rows = matrix.rows, .cols = matrix.cols},
                     .bytes = BufferRef::allocate(matrix.rows * stride)};
  const std::span<std::byte> out = made.bytes.mutable_bytes();
  const std::size_t bad =
      least_of_slices(matrix.rows, encoders.executor, [&](std::size_t first, std::size_t last) {
        encode_slice(source, type, importance, encoders.rows, {first, last}, out);
        // A NaN or infinite element shows as such, or as its block's scale; so does a scale that
        // f16 cannot hold.
        while (first < last && is_finite_row(type, out.subspan(first * stride, stride))) ++first;
        return first < last ? first : std::size_t{matrix.rows};
      });
  if (bad < matrix.rows) return unfit(options, source, bad, tensor::RowDefect::non_finite);
  made.view.bytes = made.bytes.bytes();
  return made;
}

}  // namespace

Result<EncodedMatrix> encode_matrix(const work::SourceMatrix& source,
                                    std::span<const BufferRef> parts,
                                    std::optional<WeightType> wanted,
                                    std::span<const float> importance, const EncodeOptions& options,
                                    const Encoders& encoders) {
  const auto rows = SourceRows::open(source, parts);
  if (!rows) return fail(ErrorCode::runtime, options.label, rows.error().detail);
  const auto type = choose_type(*rows, wanted, options);
  if (!type) return fail(type.error());
  if (rows->own_type() == *type && rows->is_contiguous()) {
    return keep(*rows, *type, options, encoders.executor);
  }
  return convert(*rows, *type, importance, options, encoders);
}

Result<std::vector<float>> decode_values(const std::optional<work::SourceMatrix>& source,
                                         std::span<const BufferRef> parts,
                                         const std::string& label) {
  if (!source) return std::vector<float>();
  const auto rows = SourceRows::open(*source, parts);
  if (!rows) return fail(ErrorCode::runtime, label, rows.error().detail);
  std::vector<float> values(std::size_t{source->rows} * source->cols);
  rows->read(0, values);
  if (!is_finite_row(WeightType::f32, std::as_bytes(std::span<const float>(values)))) {
    return fail(ErrorCode::runtime, label,
                "tensor '" + source->tensor + "' has a non-finite value");
  }
  return values;
}

}  // namespace tenzro::prepare
