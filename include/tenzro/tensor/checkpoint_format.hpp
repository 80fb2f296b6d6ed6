#pragma once
/// \file
/// Number formats of published checkpoints that keep a matrix as packed values and separate scales.
///
/// A matrix of rows x cols is row-major, as checkpoints store it (out x in). Element (r, c) is
///   fp8_block128  value: F8_E4M3; scale: one of each 128 x 128 block, ceil(rows/128) x
///                 ceil(cols/128), F32, BF16 or F8_E8M0 (`weight_scale_inv`, `scale`). Blocks at
///                 the right and lower edge may be cut.
///   fp4_group32   value: F4_E2M1, two a byte, element 2i in the low nibble of byte i; scale: one
///                 F8_E8M0 (stored as F8_E8M0 or U8) of each 32 elements of a row. Covers packed I8
///                 weights with `scale`, gpt-oss `_blocks` and `_scales` (one expert's slab: its
///                 blocks of 16 bytes lie in row order), and mxfp4-pack-quantized.
///   int4_group32  value: nibble i of 32-bit word w is element 8w + i, minus 8; scale: one BF16,
///   F16
///                 or F32 of each 32 elements of a row. compressed-tensors' symmetric
///                 pack-quantized; rows and cols are its `weight_shape`.
/// times its scale, multiplied in f32.
/// Rules
///  - Decoding is exact: the f32 product, rounded once where it does not fit f32 (a full F32
///  scale).
///  - NaN codes decode to NaN: whether non-finite weights are served is not decided here.
///  - Sizes are checked before anything is read; an error's `where` is `values`, `scales`, `shape`
///    or `rows`.
///  - Any range of rows may be asked for, so that a caller streams through a matrix with one row's
///    memory.
/// Cost: O(elements asked for). Pure, allocation-free.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/tensor/dtype.hpp"

namespace tenzro::tensor {

enum class CheckpointFormat : std::uint8_t { fp8_block128, fp4_group32, int4_group32 };

[[nodiscard]] std::string_view name_of(CheckpointFormat format);

/// Whether scales of `format` may be stored as `dtype`.
[[nodiscard]] bool is_scale_dtype(CheckpointFormat format, DType dtype);

/// Views of one matrix's bytes, whole.
struct PackedMatrix {
  CheckpointFormat format = CheckpointFormat::fp8_block128;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::span<const std::byte> values;
  std::span<const std::byte> scales;
  DType scale_dtype = DType::f32;
};

/// Whether sizes and types of `matrix` agree with its format.
[[nodiscard]] Status check_packed_matrix(const PackedMatrix& matrix);

/// Decodes out.size() / cols rows from `first_row`. Refuses what `check_packed_matrix` refuses,
/// rows beyond the matrix, and an `out` that is no whole number of rows.
[[nodiscard]] Status decode_packed_rows(const PackedMatrix& matrix, std::uint64_t first_row,
                                        std::span<float> out);

}  // namespace tenzro::tensor
