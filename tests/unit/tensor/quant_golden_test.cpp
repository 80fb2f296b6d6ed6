// Blocks against the reference quantiser's own output: bytes, values and dot products.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/tensor/block.hpp"

#include "unit/tensor/golden_file.hpp"

namespace tenzro::tensor {
namespace {

using test::GoldenArray;

struct BlockType {
  WeightType type;
  std::string name;
};

class QuantGolden : public testing::TestWithParam<BlockType> {
 protected:
  static const std::map<std::string, GoldenArray>& rows() {
    static const auto arrays = test::read_golden_arrays("quant_goldens");
    return arrays;
  }

  static const std::map<std::string, GoldenArray>& dots() {
    static const auto arrays = test::read_golden_arrays("dot_goldens");
    return arrays;
  }

  /// Names of the rows that exist in this type, e.g. "ramp_n256".
  static std::vector<std::string> cases() {
    const std::string end = "/" + GetParam().name + "/q";
    std::vector<std::string> names;
    for (const auto& [name, array] : rows()) {
      if (name.ends_with(end)) names.push_back(name.substr(0, name.size() - end.size()));
    }
    return names;
  }
};

TEST_P(QuantGolden, EncodedBytesEqualTheReference) {
  std::size_t compared = 0;
  for (const std::string& name : cases()) {
    const GoldenArray& want = rows().at(name + "/" + GetParam().name + "/q");
    const auto x = rows().at(name + "/x").as<float>();
    std::vector<std::byte> got(row_bytes(GetParam().type, x.size()));
    encode_row(GetParam().type, x, got);
    if (!want.byte_stable) continue;  // the reference itself leaves its defined range there
    ASSERT_EQ(got.size(), want.bytes.size()) << name;
    const auto differing = std::mismatch(got.begin(), got.end(), want.bytes.begin()).first;
    EXPECT_EQ(differing - got.begin(), std::ssize(got)) << name << ": first differing byte";
    ++compared;
  }
  EXPECT_EQ(compared, GetParam().type == WeightType::q8_0   ? 61U
                      : GetParam().type == WeightType::q4_k ? 50U
                                                            : 56U);
}

TEST_P(QuantGolden, DecodedValuesEqualTheReferenceBitForBit) {
  for (const std::string& name : cases()) {
    const GoldenArray& row = rows().at(name + "/" + GetParam().name + "/q");
    const auto want = rows().at(name + "/" + GetParam().name + "/y").as<float>();
    std::vector<float> got(want.size());
    decode_row(GetParam().type, row.bytes, got);
    for (std::size_t i = 0; i < want.size(); ++i) {
      // NaN payloads are the processor's business; everything else is compared as bits.
      if (std::isnan(want[i]) && std::isnan(got[i])) continue;
      ASSERT_EQ(test::bits_of({&got[i], 1}), test::bits_of({&want[i], 1}))
          << name << " element " << i;
    }
  }
}

TEST_P(QuantGolden, DefectsAreFoundExactlyWhereDecodedValuesAreNotFinite) {
  std::size_t defects = 0;
  for (const std::string& name : cases()) {
    const GoldenArray& row = rows().at(name + "/" + GetParam().name + "/q");
    const auto y = rows().at(name + "/" + GetParam().name + "/y").as<float>();
    const bool is_finite =
        std::all_of(y.begin(), y.end(), [](float v) { return std::isfinite(v); });
    const auto defect = find_defect(GetParam().type, row.bytes);
    EXPECT_EQ(defect.has_value(), !is_finite) << name;
    if (defect) {
      EXPECT_EQ(*defect, RowDefect::non_finite) << name;
      ++defects;
    }
  }
  EXPECT_EQ(defects, GetParam().type == WeightType::q6_k ? 0U : 4U);
}

TEST_P(QuantGolden, ReferenceDotEqualsTheDoublePrecisionDot) {
  const WeightType type = GetParam().type;
  for (const std::string length : {"n256", "n2048", "n7168"}) {
    const auto x = dots().at(length + "/x").as<float>();
    const GoldenArray& weights = dots().at(length + "/" + GetParam().name + "/w");
    const auto want = dots().at(length + "/" + GetParam().name + "/dot_f64_x_f32").as<double>();
    const std::size_t rows = weights.shape.at(0);
    const std::size_t cols = x.size() / rows;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto encoded =
          std::span(weights.bytes).subspan(i % rows * row_bytes(type, cols), row_bytes(type, cols));
      const auto activations = std::span(x).subspan(i / rows * cols, cols);
      // The products are exact in double; only the order of the sums differs, and sums of at most
      // 7168 terms below 1 in magnitude differ by far less than this.
      EXPECT_NEAR(dot_reference(type, encoded, activations), want[i], 1e-12) << length << " " << i;
    }
  }
}

TEST_P(QuantGolden, DotOfQuantisedActivationsStaysWithinTheReferenceKernelsError) {
  // Bounds measured for the reference's own kernels (`stats` of dot_goldens.json): its K kernels
  // round activations in blocks of 256, so they differ from ours where ours is exact.
  const WeightType type = GetParam().type;
  for (const std::string length : {"n256", "n2048", "n7168"}) {
    const auto x = dots().at(length + "/x").as<float>();
    const GoldenArray& carrier = dots().at(length + "/x.Q8_0.ref");
    std::vector<std::byte> encoded_x(carrier.bytes.size());
    encode_row(WeightType::q8_0, x, encoded_x);
    EXPECT_EQ(encoded_x, carrier.bytes) << length;
    std::vector<float> rounded(x.size());
    decode_row(WeightType::q8_0, carrier.bytes, rounded);
    const GoldenArray& weights = dots().at(length + "/" + GetParam().name + "/w");
    const auto exact = dots().at(length + "/" + GetParam().name + "/dot_f64_x_q8_0").as<double>();
    const auto kernel = dots().at(length + "/" + GetParam().name + "/dot_ggml").as<float>();
    const double bound = type == WeightType::q8_0 ? 1e-6 : 0.033;
    const std::size_t rows = weights.shape.at(0);
    const std::size_t cols = x.size() / rows;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto encoded =
          std::span(weights.bytes).subspan(i % rows * row_bytes(type, cols), row_bytes(type, cols));
      const double got =
          dot_reference(type, encoded, std::span(rounded).subspan(i / rows * cols, cols));
      EXPECT_NEAR(got, exact[i], 1e-12) << length << " " << i;
      EXPECT_NEAR(got, static_cast<double>(kernel[i]), bound) << length << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QuantGolden,
                         testing::Values(BlockType{WeightType::q8_0, "Q8_0"},
                                         BlockType{WeightType::q4_k, "Q4_K"},
                                         BlockType{WeightType::q6_k, "Q6_K"}),
                         [](const auto& type) { return type.param.name; });

}  // namespace
}  // namespace tenzro::tensor
