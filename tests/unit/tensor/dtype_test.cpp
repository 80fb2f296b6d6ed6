#include "tenzro/tensor/dtype.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/safetensors.hpp"

#include "unit/tensor/golden_file.hpp"

namespace tenzro::tensor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

/// Twin of the conversions: the nearest of all finite values of a 16-bit format, found by search.
/// `decode` maps codes 0..`top` to ascending magnitudes; ties go to the even code.
template <typename Decode>
std::uint16_t nearest_code(float magnitude, std::uint16_t top, Decode decode) {
  std::uint32_t low = 0;
  std::uint32_t high = top;
  while (low + 1 < high) {
    const std::uint32_t middle = (low + high) / 2;
    (decode(static_cast<std::uint16_t>(middle)) <= magnitude ? low : high) = middle;
  }
  const double below =
      static_cast<double>(magnitude) - static_cast<double>(decode(static_cast<std::uint16_t>(low)));
  const double above = static_cast<double>(decode(static_cast<std::uint16_t>(high))) -
                       static_cast<double>(magnitude);
  const bool take_high = above < below || (above == below && high % 2 == 0);
  return static_cast<std::uint16_t>(take_high ? high : low);
}

TEST(DType, NamesRoundTripAndOthersAreRefused) {
  for (const char* name : {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "I64",
                           "I32", "I16", "I8", "U8", "BOOL"}) {
    const auto dtype = dtype_from_name(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(name_of(*dtype), name);
  }
  for (const char* name : {"", "f32", "F4", "U16", "U32", "U64", "F8_E4M3FN", "BF16 "}) {
    EXPECT_EQ(dtype_from_name(name), std::nullopt) << name;
  }
}

TEST(DType, SizesAndFloatnessAreThoseOfTheNames) {
  EXPECT_EQ(bytes_of(DType::f64), 8U);
  EXPECT_EQ(bytes_of(DType::f32), 4U);
  EXPECT_EQ(bytes_of(DType::f16), 2U);
  EXPECT_EQ(bytes_of(DType::bf16), 2U);
  EXPECT_EQ(bytes_of(DType::f8_e4m3), 1U);
  EXPECT_EQ(bytes_of(DType::i64), 8U);
  EXPECT_EQ(bytes_of(DType::i32), 4U);
  EXPECT_EQ(bytes_of(DType::i16), 2U);
  EXPECT_EQ(bytes_of(DType::boolean), 1U);
  EXPECT_TRUE(is_float(DType::f64));
  EXPECT_TRUE(is_float(DType::f8_e8m0));
  EXPECT_FALSE(is_float(DType::i64));
  EXPECT_FALSE(is_float(DType::boolean));
}

TEST(DType, EveryF16CodeSurvivesTheRoundTrip) {
  for (std::uint32_t code = 0; code <= 0xFFFF; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    const float value = f16_to_f32(half);
    if ((code & 0x7FFFU) > 0x7C00U) {
      EXPECT_TRUE(std::isnan(value)) << code;
      EXPECT_EQ(f32_to_f16(value), (code & 0x8000U) | 0x7E00U) << code;
    } else {
      EXPECT_EQ(f32_to_f16(value), code);
    }
  }
}

TEST(DType, F16ValuesAreThoseOfTheFormat) {
  EXPECT_EQ(f16_to_f32(0x3C00), 1.0F);
  EXPECT_EQ(f16_to_f32(0xC000), -2.0F);
  EXPECT_EQ(f16_to_f32(0x7BFF), 65504.0F);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24F);
  EXPECT_EQ(f16_to_f32(0x03FF), 1023.0F * 0x1p-24F);
  EXPECT_EQ(f16_to_f32(0x0400), 0x1p-14F);
  EXPECT_EQ(f16_to_f32(0xFC00), -kInfinity);
  EXPECT_EQ(bits(f16_to_f32(0x8000)), 0x80000000U);
}

TEST(DType, F16RoundsToNearestTiesToEven) {
  EXPECT_EQ(f32_to_f16(1.0F + 0x1p-11F), 0x3C00);             // tie, down to even
  EXPECT_EQ(f32_to_f16(1.0F + 0x1.8p-10F), 0x3C02);           // tie, up to even
  EXPECT_EQ(f32_to_f16(1.0F + 0x1p-11F + 0x1p-20F), 0x3C01);  // just above the tie
  EXPECT_EQ(f32_to_f16(0x1p-25F), 0x0000);                    // tie with zero
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25F, 1.0F)), 0x0001);
  EXPECT_EQ(f32_to_f16(0x1.8p-24F), 0x0002);
  EXPECT_EQ(f32_to_f16(0x1p-14F - 0x1p-26F), 0x0400);  // carries into the first normal
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-1e30F), 0xFC00);
  EXPECT_EQ(f32_to_f16(-0.0F), 0x8000);
  EXPECT_EQ(f32_to_f16(1e-40F), 0x0000);
}

TEST(DType, HalvesEqualTheNearestCodeFoundBySearch) {
  Prng prng(17);
  for (int i = 0; i < 200'000; ++i) {
    const auto random = static_cast<std::uint32_t>(prng.next()) & 0x7FFFFFFFU;
    const float value = std::bit_cast<float>(random);
    if (!std::isfinite(value)) continue;
    if (value < 65504.0F) {
      ASSERT_EQ(f32_to_f16(value), nearest_code(value, 0x7BFF, f16_to_f32)) << value;
      ASSERT_EQ(f32_to_f16(-value), 0x8000U | nearest_code(value, 0x7BFF, f16_to_f32)) << value;
    }
    if (value < bf16_to_f32(0x7F7F)) {
      ASSERT_EQ(f32_to_bf16(value), nearest_code(value, 0x7F7F, bf16_to_f32)) << value;
    }
  }
}

TEST(DType, Bf16EdgesEqualTheGoldenTable) {
  const auto file = test::read_data("formats/checkpoint_formats.safetensors");
  const auto header = parse_safetensors(file);
  ASSERT_TRUE(header.has_value());
  const auto part = [&](const char* name) {
    const TensorInfo* info = header->find(name);
    return std::span(file).subspan(info->begin, info->bytes());
  };
  const auto codes = test::values_of<std::uint16_t>(part("table.bf16.bits"));
  const auto values = test::values_of<float>(part("table.bf16.f32"));
  ASSERT_EQ(codes.size(), 12U);
  std::vector<float> converted(codes.size());
  convert_to_f32(DType::bf16, part("table.bf16.bits"), converted);
  EXPECT_EQ(test::bits_of(converted), test::bits_of(values));
  for (std::size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(bits(bf16_to_f32(codes[i])), bits(values[i])) << codes[i];
    EXPECT_EQ(f32_to_bf16(values[i]), codes[i]);
  }
}

TEST(DType, Bf16RoundsToNearestTiesToEvenAndKeepsNan) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(f32_to_bf16(-kInfinity), 0xFF80);
  // A NaN whose payload lies in the lost bits alone must not turn into infinity.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(DType, F8E5M2ValuesAreThoseOfTheFormat) {
  EXPECT_EQ(f8_e5m2_to_f32(0x3C), 1.0F);
  EXPECT_EQ(f8_e5m2_to_f32(0x7B), 57344.0F);
  EXPECT_EQ(f8_e5m2_to_f32(0x01), 0x1p-16F);
  EXPECT_EQ(f8_e5m2_to_f32(0xFC), -kInfinity);
  EXPECT_TRUE(std::isnan(f8_e5m2_to_f32(0x7D)));
}

TEST(DType, F8E8M0IsAPowerOfTwo) {
  EXPECT_EQ(f8_e8m0_to_f32(127), 1.0F);
  EXPECT_EQ(f8_e8m0_to_f32(0), 0x1p-127F);
  EXPECT_EQ(f8_e8m0_to_f32(254), 0x1p127F);
  EXPECT_TRUE(std::isnan(f8_e8m0_to_f32(255)));
}

TEST(DType, EveryFloatTypeConvertsElementByElement) {
  const std::vector<double> f64{0.1, -2.0, 1e300};
  std::vector<float> out(3);
  convert_to_f32(DType::f64, std::as_bytes(std::span(f64)), out);
  EXPECT_EQ(out, (std::vector<float>{0.1F, -2.0F, kInfinity}));

  const std::vector<float> f32{0.1F, -0.0F, kInfinity};
  convert_to_f32(DType::f32, std::as_bytes(std::span(f32)), out);
  EXPECT_EQ(test::bits_of(out), test::bits_of(f32));

  const std::vector<std::uint16_t> f16{0x3C00, 0x0001, 0xFC00};
  convert_to_f32(DType::f16, std::as_bytes(std::span(f16)), out);
  EXPECT_EQ(out, (std::vector<float>{1.0F, 0x1p-24F, -kInfinity}));

  const std::vector<std::uint8_t> f8{0x38, 0x01, 0xFE};
  convert_to_f32(DType::f8_e4m3, std::as_bytes(std::span(f8)), out);
  EXPECT_EQ(out, (std::vector<float>{1.0F, 0x1p-9F, -448.0F}));
  convert_to_f32(DType::f8_e5m2, std::as_bytes(std::span(f8).first(2)), std::span(out).first(2));
  EXPECT_EQ(out[0], 0.5F);
  convert_to_f32(DType::f8_e8m0, std::as_bytes(std::span(f8)), out);
  EXPECT_EQ(out[2], 0x1p127F);
  convert_to_f32(DType::f32, {}, {});
}

TEST(DTypeDeathTest, IntegersAndWrongSizesAreBugsOfTheCaller) {
  std::vector<float> out(1);
  const std::vector<std::byte> four(4);
  EXPECT_DEATH(convert_to_f32(DType::i32, four, out), "is_float");
  EXPECT_DEATH(convert_to_f32(DType::f16, four, out), "bytes_of");
}

}  // namespace
}  // namespace tenzro::tensor
