#pragma once
/// \file
/// Weight storage types and the GGUF block formats Q8_0, Q4_K and Q6_K.
///
/// Rules
///  - Encoding is byte-equal to ggml's reference quantiser (quantize_row_*_ref, no importance
///  matrix);
///    the translation unit is compiled without FMA contraction, or bytes differ.
///  - Decoding is exact: each element is the f32 value of the format's formula, in ggml's order of
///  operations.
///  - A row never shares a block with the next row: `cols` must divide by `block_elements(type)`.
///  - A block with a non-finite element encodes to a NaN scale: `find_defect` sees what was lost.
/// Formats: Q8_0 34 bytes/32 (f16 d, i8 q[32]); Q4_K 144/256 (f16 d, f16 dmin, 12 packed 6-bit
/// scales and mins, 4-bit q[256]); Q6_K 210/256 (ql[128], qh[64], i8 scales[16], f16 d). Numbers of
/// the enum are GGUF type ids; receipts carry them.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tenzro::tensor {

enum class WeightType : std::uint8_t {
  f32 = 0,
  f16 = 1,
  q8_0 = 8,
  q4_k = 12,
  q6_k = 14,
  bf16 = 30,
};

/// Lower-case name as used on the wire: "f32", "f16", "bf16", "q8_0", "q4_k", "q6_k".
[[nodiscard]] std::string_view name_of(WeightType type);
/// Also takes the aliases "q4_k_m" and "q4_k_s" (both Q4_K).
[[nodiscard]] std::optional<WeightType> weight_type_from_name(std::string_view name);
[[nodiscard]] bool is_quantized(WeightType type);
/// Elements a block: 1 for the dense types, 32 for Q8_0, 256 for the K types.
[[nodiscard]] std::size_t block_elements(WeightType type);
[[nodiscard]] std::size_t block_bytes(WeightType type);
/// Bytes of one row. Requires cols % block_elements(type) == 0.
[[nodiscard]] std::size_t row_bytes(WeightType type, std::size_t cols);
/// Bits a weight, e.g. 8.5 for Q8_0.
[[nodiscard]] double bits_per_weight(WeightType type);

/// Encodes one row. Dense types convert (f16/bf16 round to nearest even).
/// Requires x.size() % block_elements(type) == 0 and out.size() == row_bytes(type, x.size()).
void encode_row(WeightType type, std::span<const float> x, std::span<std::byte> out);
/// As encode_row, where the columns do not count alike: bytes of ggml's quantiser with an
/// importance matrix. Q4_K and Q6_K heed it, other types do as encode_row does. Requires
/// importance.size() == x.size(), finite and not negative.
void encode_row_weighted(WeightType type, std::span<const float> x,
                         std::span<const float> importance, std::span<std::byte> out);
/// Decodes one row. Same size requirements.
void decode_row(WeightType type, std::span<const std::byte> row, std::span<float> out);

/// Reference dot of one encoded weight row with f32 activations, accumulated in double.
[[nodiscard]] double dot_reference(WeightType type, std::span<const std::byte> row,
                                   std::span<const float> x);

/// False where a dense element or a block's scale is infinite or NaN.
[[nodiscard]] bool is_finite_row(WeightType type, std::span<const std::byte> row);

/// What makes an encoded row unfit to be served, or nothing.
enum class RowDefect : std::uint8_t { non_finite, q8_minus_128 };
/// Dense rows: any non-finite element. Block rows: a non-finite scale, or a Q8_0 value of -128
/// (which the reference never makes and integer kernels exclude).
[[nodiscard]] std::optional<RowDefect> find_defect(WeightType type, std::span<const std::byte> row);

}  // namespace tenzro::tensor
