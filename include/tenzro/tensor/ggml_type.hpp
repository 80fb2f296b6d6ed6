#pragma once
/// \file
/// The tensor types of GGUF files: how many bytes a block takes, and exact decoding to f32.
///
/// Types that a node serves as they are have a WeightType; the others are decoded, in the order of
/// operations of ggml's own dequantisers, or, where there is no decoder here, refused by name.
/// Blocks (element i of 32 and element i + 16 share byte i unless said otherwise; d, m are f16)
///   Q4_0 18/32 (d, nibbles - 8); Q4_1 20/32 (d, m, nibbles); Q5_0 22/32 and Q5_1 24/32 (as those,
///   with a 32-bit word of fifth bits before the nibbles); Q5_K 176/256 (Q4_K with 32 bytes of
///   fifth bits before the nibbles); MXFP4 17/32 (E8M0 scale, E2M1 values); IQ4_NL 18/32 (d,
///   nibbles through a table); IQ4_XS 136/256 (d, 6-bit group scales, the same table).
/// Two bits an element, four a byte: of a block of 256 the elements i, i + 32, i + 64, i + 96 share
/// byte i, and 128 further on the next 32 bytes begin
///   Q2_K 84/256 (16 pairs of 4-bit scale and minimum, values, d, dmin); Q3_K 110/256 (32 bytes of
///   third bits, values - 4, 6-bit scales - 32, d); TQ2_0 66/256 (values - 1, d); Q2_0 18/64 (d,
///   values - 1, element i in byte i / 4)
/// Q1_0 18/128 (d, signs); TQ1_0 54/256 (ternary digits, five a byte, as a fraction; d).
/// Not decoded: the codebook types (IQ1, IQ2, IQ3), NVFP4, whose matrices have a further scale
/// beside them, and Q8_1 and Q8_K, which no file holds.
/// The numbers are those of the file format. Pure, allocation-free.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tenzro/tensor/block.hpp"

namespace tenzro::tensor {

/// A type that GGUF version 3 knows. Values without a name here are refused by the reader.
enum class GgmlType : std::uint8_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

[[nodiscard]] std::optional<GgmlType> ggml_type_from_number(std::uint32_t number);
/// Upper-case, as files are called after it: "Q5_K".
[[nodiscard]] std::string_view name_of(GgmlType type);
[[nodiscard]] std::size_t block_elements(GgmlType type);
[[nodiscard]] std::size_t block_bytes(GgmlType type);
/// The type a node serves without touching its bytes.
[[nodiscard]] std::optional<WeightType> weight_type_of(GgmlType type);
/// Whether `decode_row` takes it.
[[nodiscard]] bool is_decodable(GgmlType type);
/// Decodes one row. Requires is_decodable(type), out.size() divisible by block_elements(type), and
/// row.size() the bytes of that many blocks.
void decode_row(GgmlType type, std::span<const std::byte> row, std::span<float> out);

}  // namespace tenzro::tensor
