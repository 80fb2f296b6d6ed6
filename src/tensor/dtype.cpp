#include "tenzro/tensor/dtype.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "tenzro/base/assert.hpp"

#include "f8_e4m3.hpp"

namespace tenzro::tensor {
namespace {

static_assert(std::numeric_limits<float>::is_iec559, "conversions assume IEEE 754 floats");
static_assert(std::endian::native == std::endian::little, "element bytes are little-endian");

struct Traits {
  std::string_view name;
  std::size_t bytes;
};

/// Indexed by DType.
constexpr std::array<Traits, 13> kTraits{{
    {"F64", 8},
    {"F32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U8", 1},
    {"BOOL", 1},
}};
static_assert(static_cast<std::size_t>(DType::boolean) + 1 == kTraits.size());

const Traits& traits_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  TENZRO_ASSERT(index < kTraits.size());
  return kTraits[index];
}

template <typename Bits, typename Convert>
void convert_all(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Bits bits{};
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    out[i] = convert(bits);
  }
}

/// `bits` shifted right by `shift` (1..31), rounded to nearest, ties to even.
std::uint32_t shift_right_rounded(std::uint32_t bits, unsigned shift) {
  const std::uint32_t kept = bits >> shift;
  const std::uint32_t rest = bits & ((1U << shift) - 1U);
  const std::uint32_t half = 1U << (shift - 1U);
  const bool up = rest > half || (rest == half && (kept & 1U) != 0);
  return up ? kept + 1U : kept;
}

}  // namespace

std::size_t bytes_of(DType dtype) {
  return traits_of(dtype).bytes;
}

std::string_view name_of(DType dtype) {
  return traits_of(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kTraits.size(); ++i) {
    if (kTraits[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_float(DType dtype) {
  return dtype <= DType::f8_e8m0;
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0x1F) {
    const std::uint32_t quiet = fraction != 0 ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7F800000U | quiet | (fraction << 13U));
  }
  if (exponent == 0) {
    // Zero or subnormal: fraction * 2^-24, exact in f32.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  // Rebias the exponent from 15 to 127.
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
}

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U;  // NaN
  } else if (magnitude >= 0x47800000U) {
    half = 0x7C00U;  // 65536 and above, infinity among them
  } else if (magnitude >= 0x38800000U) {
    // Normal. Rounding may carry into the exponent, up to infinity, as it should.
    half = shift_right_rounded(magnitude - 0x38000000U, 13);
  } else if (magnitude >= 0x33000000U) {
    // Subnormal: at least 2^-25, so at most 24 fraction bits go.
    const std::uint32_t significand = (magnitude & 0x7FFFFFU) | 0x800000U;
    half = shift_right_rounded(significand, 126U - (magnitude >> 23U));
  }
  return static_cast<std::uint16_t>(sign | half);
}

float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);  // NaN: the quiet bit keeps it one
  }
  return static_cast<std::uint16_t>(shift_right_rounded(bits, 16));
}

float f8_e4m3_to_f32(std::uint8_t bits) {
  return decode_f8_e4m3(bits);
}

float f8_e5m2_to_f32(std::uint8_t bits) {
  return f16_to_f32(static_cast<std::uint16_t>(bits << 8U));
}

float f8_e8m0_to_f32(std::uint8_t bits) {
  if (bits == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  if (bits == 0) return 0x1p-127F;  // subnormal in f32
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 23U);
}

void convert_to_f32(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  TENZRO_ASSERT(is_float(dtype));
  TENZRO_ASSERT(bytes.size() == out.size() * bytes_of(dtype));
  switch (dtype) {
    case DType::f64:
      convert_all<double>(bytes, out, [](double x) { return static_cast<float>(x); });
      return;
    case DType::f32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    case DType::f16:
      convert_all<std::uint16_t>(bytes, out, f16_to_f32);
      return;
    case DType::bf16:
      convert_all<std::uint16_t>(bytes, out, bf16_to_f32);
      return;
    case DType::f8_e4m3:
      convert_all<std::uint8_t>(bytes, out, f8_e4m3_to_f32);
      return;
    case DType::f8_e5m2:
      convert_all<std::uint8_t>(bytes, out, f8_e5m2_to_f32);
      return;
    case DType::f8_e8m0:
      convert_all<std::uint8_t>(bytes, out, f8_e8m0_to_f32);
      return;
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      break;  // excluded by the assertion above
  }
}

}  // namespace tenzro::tensor
