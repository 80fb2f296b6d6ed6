#include "tenzro/tensor/block.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tenzro/tensor/dtype.hpp"

#include "unit/tensor/golden_file.hpp"

namespace tenzro::tensor {
namespace {

constexpr WeightType kAllTypes[] = {WeightType::f32,  WeightType::f16,  WeightType::bf16,
                                    WeightType::q8_0, WeightType::q4_k, WeightType::q6_k};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Smooth values in (-1, 1), no two alike.
std::vector<float> wave(std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = std::sin(0.37F * static_cast<float>(i + 1));
  return values;
}

std::vector<std::byte> encoded(WeightType type, const std::vector<float>& x) {
  std::vector<std::byte> row(row_bytes(type, x.size()));
  encode_row(type, x, row);
  return row;
}

TEST(WeightType, NamesRoundTripWithTwoAliases) {
  for (const WeightType type : kAllTypes) {
    EXPECT_EQ(weight_type_from_name(name_of(type)), type);
  }
  EXPECT_EQ(name_of(WeightType::q4_k), "q4_k");
  EXPECT_EQ(weight_type_from_name("q4_k_m"), WeightType::q4_k);
  EXPECT_EQ(weight_type_from_name("q4_k_s"), WeightType::q4_k);
  for (const char* name : {"", "Q8_0", "q5_k", "q8", "f64"}) {
    EXPECT_EQ(weight_type_from_name(name), std::nullopt) << name;
  }
}

TEST(WeightType, SizesAreThoseOfTheBlocks) {
  EXPECT_EQ(row_bytes(WeightType::f32, 7), 28U);
  EXPECT_EQ(row_bytes(WeightType::f16, 7), 14U);
  EXPECT_EQ(row_bytes(WeightType::bf16, 7), 14U);
  EXPECT_EQ(row_bytes(WeightType::q8_0, 2880), 90U * 34U);
  EXPECT_EQ(row_bytes(WeightType::q4_k, 2048), 8U * 144U);
  EXPECT_EQ(row_bytes(WeightType::q6_k, 2048), 8U * 210U);
  EXPECT_EQ(row_bytes(WeightType::q6_k, 0), 0U);
  EXPECT_EQ(bits_per_weight(WeightType::q8_0), 8.5);
  EXPECT_EQ(bits_per_weight(WeightType::q4_k), 4.5);
  EXPECT_EQ(bits_per_weight(WeightType::q6_k), 6.5625);
  EXPECT_EQ(bits_per_weight(WeightType::bf16), 16.0);
  EXPECT_FALSE(is_quantized(WeightType::bf16));
  EXPECT_TRUE(is_quantized(WeightType::q8_0));
}

TEST(WeightTypeDeathTest, ARowMustNotShareABlock) {
  EXPECT_DEATH((void)row_bytes(WeightType::q4_k, 128), "elements == 0");
}

TEST(Row, DenseRowsRoundTrip) {
  const std::vector<float> x{1.0F, -0.5F, 65504.0F, 0.0F, -0.0F};
  for (const WeightType type : {WeightType::f32, WeightType::f16}) {
    std::vector<float> got(x.size());
    decode_row(type, encoded(type, x), got);
    EXPECT_EQ(test::bits_of(got), test::bits_of(x)) << name_of(type);
  }
  std::vector<float> got(1);
  decode_row(WeightType::bf16, encoded(WeightType::bf16, {65504.0F}), got);
  EXPECT_EQ(got[0], 65536.0F);
}

TEST(Row, DenseDotCoversTheTailBeyondWholeChunks) {
  const std::vector<float> x = wave(300);
  double want = 0.0;
  for (const float value : x) want += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(dot_reference(WeightType::f32, encoded(WeightType::f32, x), x), want, 1e-12);
  EXPECT_EQ(dot_reference(WeightType::f32, {}, {}), 0.0);
}

TEST(Row, BlocksOfARowAreIndependent) {
  const std::vector<float> x = wave(768);
  for (const WeightType type : {WeightType::q8_0, WeightType::q4_k, WeightType::q6_k}) {
    const std::vector<std::byte> whole = encoded(type, x);
    const std::vector<float> second(x.begin() + 256, x.begin() + 512);
    const std::vector<std::byte> part = encoded(type, second);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + std::ssize(part)))
        << name_of(type);
  }
}

TEST(Row, Q8TiesRoundAwayFromZero) {
  std::vector<float> x(32, 0.0F);
  x[0] = 127.0F;  // scale 1
  x[1] = 0.5F;
  x[2] = -0.5F;
  x[3] = 2.5F;
  x[4] = std::nextafter(0.5F, 0.0F);
  const std::vector<std::byte> row = encoded(WeightType::q8_0, x);
  EXPECT_EQ(row[2], std::byte{127});
  EXPECT_EQ(row[3], std::byte{1});
  EXPECT_EQ(row[4], std::byte{0xFF});
  EXPECT_EQ(row[5], std::byte{3});
  EXPECT_EQ(row[6], std::byte{0});
}

class DefectOfType : public testing::TestWithParam<WeightType> {};

TEST_P(DefectOfType, ANonFiniteElementIsFoundInAnyBlock) {
  EXPECT_EQ(find_defect(GetParam(), encoded(GetParam(), wave(512))), std::nullopt);
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const std::size_t at : {0U, 300U, 511U}) {
      std::vector<float> x = wave(512);
      x[at] = bad;
      EXPECT_EQ(find_defect(GetParam(), encoded(GetParam(), x)), RowDefect::non_finite)
          << bad << " at " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DefectOfType, testing::ValuesIn(kAllTypes),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(Defect, ALongDenseRowIsLookedAtToItsEnd) {
  std::vector<float> x = wave(257);
  EXPECT_EQ(find_defect(WeightType::f16, encoded(WeightType::f16, x)), std::nullopt);
  x.back() = 1e6F;  // beyond f16
  EXPECT_EQ(find_defect(WeightType::f16, encoded(WeightType::f16, x)), RowDefect::non_finite);
  EXPECT_EQ(find_defect(WeightType::f32, encoded(WeightType::f32, x)), std::nullopt);
}

TEST(Defect, EveryScaleFieldIsLookedAt) {
  struct Field {
    WeightType type;
    std::size_t offset;
  };

  for (const auto& [type, offset] : {Field{WeightType::q8_0, 0}, Field{WeightType::q4_k, 0},
                                     Field{WeightType::q4_k, 2}, Field{WeightType::q6_k, 208}}) {
    std::vector<std::byte> row = encoded(type, wave(512));
    row[row.size() - block_bytes(type) + offset + 1] = std::byte{0x7C};  // f16 infinity or NaN
    EXPECT_EQ(find_defect(type, row), RowDefect::non_finite) << name_of(type) << " " << offset;
  }
}

TEST(Defect, Q8ValueMinus128IsFoundAnywhereButInTheScale) {
  std::vector<std::byte> row = encoded(WeightType::q8_0, wave(64));
  row[0] = std::byte{0x80};  // a byte of the scale
  EXPECT_EQ(find_defect(WeightType::q8_0, row), std::nullopt);
  row.back() = std::byte{0x80};
  EXPECT_EQ(find_defect(WeightType::q8_0, row), RowDefect::q8_minus_128);
  EXPECT_EQ(find_defect(WeightType::q8_0, {}), std::nullopt);
}

TEST(Defect, EncodingNeverMakesMinus128) {
  for (const float scale : {1e-44F, 1e-40F, 3e-38F, 1e-3F, 1e7F, 3e38F}) {
    std::vector<float> x = wave(256);
    for (float& value : x) value *= scale;
    EXPECT_NE(find_defect(WeightType::q8_0, encoded(WeightType::q8_0, x)), RowDefect::q8_minus_128)
        << scale;
  }
}

}  // namespace
}  // namespace tenzro::tensor
