// Goal: GGUF's block types are decoded to ggml's own values, and importance gives ggml's own bytes.
// Method: tests/data/gguf, which ggml wrote.
#include "tenzro/tensor/ggml_type.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/safetensors.hpp"

#include "unit/tensor/golden_file.hpp"

namespace tenzro::tensor {
namespace {

class GgmlGolden {
 public:
  explicit GgmlGolden(const std::string& file = "ggml_types")
      : file_(test::read_data("gguf/" + file + ".safetensors")) {
    auto header = parse_safetensors(file_);
    EXPECT_TRUE(header.has_value());
    if (header) header_ = std::move(*header);
  }

  [[nodiscard]] std::span<const std::byte> bytes(const std::string& name) const {
    const TensorInfo* info = header_.find(name);
    EXPECT_NE(info, nullptr) << name;
    return info == nullptr ? std::span<const std::byte>()
                           : std::span(file_).subspan(info->begin, info->bytes());
  }

  [[nodiscard]] std::vector<float> f32(const std::string& name) const {
    return test::values_of<float>(bytes(name));
  }

 private:
  std::vector<std::byte> file_;
  SafetensorsHeader header_;
};

struct Decoded {
  GgmlType type;
  const char* name;
  const char* file = "ggml_types";
};

/// The types of one to three bits; there half of the blocks are random bytes.
constexpr const char* kLow = "ggml_low_types";

class GgmlTypes : public ::testing::TestWithParam<Decoded> {};

TEST_P(GgmlTypes, BlocksAreDecodedToGgmlsValuesBitForBit) {
  const GgmlGolden golden(GetParam().file);
  const std::string name = GetParam().name;
  const std::vector<float> want = golden.f32(name + ".f32");
  std::vector<float> got(want.size());
  ASSERT_TRUE(is_decodable(GetParam().type));
  decode_row(GetParam().type, golden.bytes(name + ".blocks"), got);
  EXPECT_EQ(test::bits_of(got), test::bits_of(want));
}

INSTANTIATE_TEST_SUITE_P(
    Ggml, GgmlTypes,
    ::testing::Values(Decoded{GgmlType::q4_0, "q4_0"}, Decoded{GgmlType::q4_1, "q4_1"},
                      Decoded{GgmlType::q5_0, "q5_0"}, Decoded{GgmlType::q5_1, "q5_1"},
                      Decoded{GgmlType::q5_k, "q5_K"}, Decoded{GgmlType::mxfp4, "mxfp4"},
                      Decoded{GgmlType::iq4_nl, "iq4_nl"}, Decoded{GgmlType::iq4_xs, "iq4_xs"},
                      Decoded{GgmlType::q2_k, "q2_K", kLow}, Decoded{GgmlType::q3_k, "q3_K", kLow},
                      Decoded{GgmlType::tq1_0, "tq1_0", kLow},
                      Decoded{GgmlType::tq2_0, "tq2_0", kLow},
                      Decoded{GgmlType::q1_0, "q1_0", kLow}, Decoded{GgmlType::q2_0, "q2_0", kLow}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(GgmlTypeNumbers, KnownOnesAreThoseOfTheFormatAndRemovedOnesAreUnknown) {
  EXPECT_EQ(ggml_type_from_number(0), GgmlType::f32);
  EXPECT_EQ(ggml_type_from_number(13), GgmlType::q5_k);
  EXPECT_EQ(ggml_type_from_number(39), GgmlType::mxfp4);
  for (const std::uint32_t removed : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U, 43U, 1000U}) {
    EXPECT_EQ(ggml_type_from_number(removed), std::nullopt) << removed;
  }
  EXPECT_EQ(weight_type_of(GgmlType::q6_k), WeightType::q6_k);
  EXPECT_EQ(weight_type_of(GgmlType::q5_k), std::nullopt);
  for (const GgmlType without :
       {GgmlType::iq1_s, GgmlType::iq2_xxs, GgmlType::iq3_s, GgmlType::nvfp4, GgmlType::q8_k})
    EXPECT_FALSE(is_decodable(without)) << name_of(without);
}

class Weighted : public ::testing::TestWithParam<WeightType> {};

TEST_P(Weighted, BytesAreThoseOfGgmlsQuantiserWithAnImportanceMatrix) {
  const GgmlGolden golden;
  const std::string name = GetParam() == WeightType::q4_k ? "q4_K" : "q6_K";
  const std::vector<float> x = golden.f32("input.f32");
  const std::vector<float> importance = golden.f32("importance.f32");
  const auto want = golden.bytes("weighted." + name + ".blocks");
  const std::size_t stride = row_bytes(GetParam(), importance.size());
  std::vector<std::byte> got(stride);
  for (std::size_t row = 0; row * stride < want.size(); ++row) {
    encode_row_weighted(GetParam(),
                        std::span(x).subspan(row * importance.size(), importance.size()),
                        importance, got);
    const auto expected = want.subspan(row * stride, stride);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin())) << "row " << row;
  }
}

TEST_P(Weighted, ANonFiniteElementShowsInTheScale) {
  std::vector<float> x(256, 1.0F);
  const std::vector<float> importance(256, 1.0F);
  x[100] = std::nanf("");
  std::vector<std::byte> row(row_bytes(GetParam(), x.size()));
  encode_row_weighted(GetParam(), x, importance, row);
  EXPECT_FALSE(is_finite_row(GetParam(), row));
}

TEST_P(Weighted, TheColumnThatCountsIsNearerToItsValue) {
  Prng prng(51);
  double plain_error = 0;
  double weighted_error = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<float> x(256);
    for (float& value : x) value = static_cast<float>(prng.below(2001)) / 1000.0F - 1.0F;
    std::vector<float> importance(256, 0.01F);
    for (std::size_t i = 0; i < x.size(); i += 16) importance[i] = 10.0F;
    std::vector<std::byte> row(row_bytes(GetParam(), x.size()));
    std::vector<float> back(x.size());
    const auto error = [&] {
      decode_row(GetParam(), row, back);
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); i += 16) {
        sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(back[i]), 2);
      }
      return sum;
    };
    encode_row(GetParam(), x, row);
    plain_error += error();
    encode_row_weighted(GetParam(), x, importance, row);
    weighted_error += error();
  }
  EXPECT_LT(weighted_error, plain_error);
}

INSTANTIATE_TEST_SUITE_P(Types, Weighted, ::testing::Values(WeightType::q4_k, WeightType::q6_k),
                         [](const auto& one) { return std::string(name_of(one.param)); });

TEST(WeightedRows, OtherTypesHeedNoImportance) {
  const std::vector<float> x(64, 0.5F);
  const std::vector<float> importance(64, 3.0F);
  std::vector<std::byte> plain(row_bytes(WeightType::q8_0, x.size()));
  std::vector<std::byte> weighted(plain.size());
  encode_row(WeightType::q8_0, x, plain);
  encode_row_weighted(WeightType::q8_0, x, importance, weighted);
  EXPECT_EQ(plain, weighted);
}

}  // namespace
}  // namespace tenzro::tensor
