#pragma once
/// \file
/// Element types of safetensors files, and exact conversion of every float type to f32.
///
/// Rules
///  - Names are those of the safetensors format (`BF16`, `F8_E4M3`, ...). Others are refused by
///  name.
///  - f32 -> f16/bf16 rounds to nearest, ties to even; NaN stays NaN (quiet), overflow gives
///  infinity.
///  - F8_E4M3 is the "fn" variant (no infinity, 0x7F/0xFF are NaN); F8_E8M0 is 2^(b-127), 0xFF is
///  NaN.
/// Pure, allocation-free except `convert_to_f32`.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tenzro::tensor {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,
};

[[nodiscard]] std::size_t bytes_of(DType dtype);
/// The safetensors name, e.g. "BF16".
[[nodiscard]] std::string_view name_of(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
/// True for F64 down to F8_E8M0.
[[nodiscard]] bool is_float(DType dtype);

[[nodiscard]] float f16_to_f32(std::uint16_t bits);
[[nodiscard]] std::uint16_t f32_to_f16(float value);
[[nodiscard]] float bf16_to_f32(std::uint16_t bits);
[[nodiscard]] std::uint16_t f32_to_bf16(float value);
[[nodiscard]] float f8_e4m3_to_f32(std::uint8_t bits);
[[nodiscard]] float f8_e5m2_to_f32(std::uint8_t bits);
[[nodiscard]] float f8_e8m0_to_f32(std::uint8_t bits);

/// Converts `out.size()` little-endian elements of a float dtype. F64 is rounded to nearest.
/// Requires is_float(dtype) and bytes.size() == out.size() * bytes_of(dtype).
void convert_to_f32(DType dtype, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace tenzro::tensor
