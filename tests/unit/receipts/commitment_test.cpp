#include "tenzro/receipts/commitment.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

namespace tenzro::receipts {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::uint32_t> indices(const RowSketch& row) {
  std::vector<std::uint32_t> list;
  for (const Feature& feature : row.features) list.push_back(feature.index);
  return list;
}

std::vector<std::uint32_t> chosen(const std::vector<float>& row, std::uint32_t k) {
  const std::uint32_t token[] = {5};
  return indices(make_sketch(token, row, static_cast<std::uint32_t>(row.size()), k).rows.at(0));
}

/// The definition: sort everything.
std::vector<std::uint32_t> naive_chosen(const std::vector<float>& row, std::size_t k) {
  std::vector<std::uint32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto size = [&](std::uint32_t i) { return std::bit_cast<std::uint32_t>(std::abs(row[i])); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return size(a) > size(b); });
  order.resize(std::min(k, order.size()));
  return order;
}

TEST(Sketch, AgreesWithSortingEverything) {
  Prng prng(9);
  for (int round = 0; round < 500; ++round) {
    std::vector<float> row(1 + prng.below(100));
    // Few distinct values make many ties.
    for (float& value : row) value = static_cast<float>(prng.below(9)) - 4.0F;
    const auto k = static_cast<std::uint32_t>(1 + prng.below(32));
    EXPECT_EQ(chosen(row, k), naive_chosen(row, k));
  }
}

TEST(Sketch, OrdersByMagnitudeAndKeepsTheSignedValue) {
  const std::uint32_t token[] = {7};
  const Sketch sketch = make_sketch(token, std::vector<float>{1, -3, 2, 3}, 4, 3);
  ASSERT_EQ(sketch.rows.size(), 1U);
  EXPECT_EQ(sketch.rows[0].token_index, 7U);
  EXPECT_THAT(indices(sketch.rows[0]), ElementsAre(1, 3, 2));
  EXPECT_EQ(sketch.rows[0].features[0].value, -3.0F);
}

TEST(Sketch, NanStandsAboveInfinityAboveNumbers) {
  EXPECT_THAT(chosen({1, kInfinity, -kNan, -kInfinity, kNan}, 5), ElementsAre(2, 4, 1, 3, 0));
}

TEST(Sketch, ZeroesOfEitherSignAreEqual) {
  EXPECT_THAT(chosen({-0.0F, 0.0F, -0.0F}, 2), ElementsAre(0, 1));
}

TEST(Sketch, NarrowRowGivesAllItHasAndKIsClamped) {
  EXPECT_THAT(chosen({1, 2, 3}, 8), ElementsAre(2, 1, 0));
  EXPECT_EQ(chosen(std::vector<float>(100, 1), 1000).size(), kSketchFeaturesMax);
  EXPECT_EQ(chosen(std::vector<float>(100, 1), 0).size(), 1U);
}

TEST(Commitment, DependsOnEveryPartOfTheSketch) {
  const std::vector<float> outputs{1, 2, 3, 4};
  const std::uint32_t tokens[] = {0, 1};
  const std::uint32_t other_tokens[] = {0, 2};
  const Hash32 base = commitment_of(make_sketch(tokens, outputs, 2));
  EXPECT_EQ(commitment_of(make_sketch(tokens, outputs, 2)), base);
  EXPECT_NE(commitment_of(make_sketch(other_tokens, outputs, 2)), base);
  EXPECT_NE(commitment_of(make_sketch(tokens, outputs, 2, 7)), base);
  EXPECT_NE(commitment_of(make_sketch(tokens, std::vector<float>{1, 2, 3, -4}, 2)), base);
  EXPECT_NE(commitment_of(make_sketch(tokens, std::vector<float>{2, 1, 3, 4}, 2)), base);
}

TEST(Commitment, OfNoRowsIsTheHeaderAlone) {
  EXPECT_EQ(canonical_bytes(make_sketch({}, {}, 64)).size(), 21U + 1U + 4U);
}

}  // namespace
}  // namespace tenzro::receipts
