#pragma once
/// \file
/// Rows of a source matrix as f32, however the checkpoint stores them.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/work/source.hpp"

namespace tenzro::prepare {

class SourceRows {
 public:
  /// Refuses bytes that do not hold what the matrix says. All must outlive the reader.
  [[nodiscard]] static Result<SourceRows> open(const work::SourceMatrix& matrix,
                                               std::span<const BufferRef> parts);

  [[nodiscard]] const work::SourceMatrix& matrix() const { return *matrix_; }

  /// The type these bytes could be served as, untouched; nothing where they need decoding.
  [[nodiscard]] std::optional<tensor::WeightType> own_type() const;
  /// What the matrix becomes without quantisation, where it is decoded.
  [[nodiscard]] tensor::WeightType dense_type(bool dense_f32) const;
  /// Whether row follows row without anything between: then `bytes` is the matrix.
  [[nodiscard]] bool is_contiguous() const;
  /// The bytes of all rows. Requires is_contiguous() and own_type().
  [[nodiscard]] BufferRef bytes() const;
  /// The stored bytes of one row, where elements are plain and not transposed; else nothing.
  [[nodiscard]] std::optional<std::span<const std::byte>> plain_row(std::size_t row) const;

  /// Rows first, first + 1, ... into `out` (out.size() / cols rows).
  void read(std::size_t first, std::span<float> out) const;

 private:
  SourceRows(const work::SourceMatrix& matrix, std::span<const BufferRef> parts)
      : matrix_(&matrix), parts_(parts) {}

  [[nodiscard]] Status check() const;

  [[nodiscard]] std::size_t stored_row(std::size_t row) const {
    return matrix_->first_row + row * matrix_->row_step;
  }

  [[nodiscard]] std::span<const std::byte> values() const {
    return parts_[matrix_->values].bytes();
  }

  [[nodiscard]] tensor::PackedMatrix packed(tensor::CheckpointFormat format) const;
  /// Bytes of one stored row; 0 where rows are not stored one after the other.
  [[nodiscard]] std::size_t row_bytes() const;
  void gather(std::size_t first, std::span<float> out) const;

  const work::SourceMatrix* matrix_;
  std::span<const BufferRef> parts_;
};

}  // namespace tenzro::prepare
