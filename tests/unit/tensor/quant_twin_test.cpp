// The K quantisers work on four groups at once; their naive twins do not. Same bytes, whatever the
// values.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/block.hpp"

#include "support/naive_quant.hpp"

namespace tenzro::tensor {
namespace {

using Block = std::array<float, 256>;

float uniform(Prng& prng) {
  return static_cast<float>(prng.below(1U << 24U)) * 0x1p-23F - 1.0F;
}

/// Blocks of one kind: what they hold decides which branches of the searches run.
struct Kind {
  const char* title;
  float (*element)(Prng& prng, std::size_t index);
};

class QuantTwin : public testing::TestWithParam<Kind> {
 protected:
  static constexpr int kBlocks = 200;

  static Block make_block(Prng& prng) {
    Block x{};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = GetParam().element(prng, i);
    return x;
  }
};

TEST_P(QuantTwin, Q4KBytesAreTheSame) {
  Prng prng(4);
  for (int i = 0; i < kBlocks; ++i) {
    const Block x = make_block(prng);
    std::array<std::byte, 144> got{};
    std::array<std::byte, 144> want{};
    encode_row(WeightType::q4_k, x, got);
    test::encode_naive_q4_k(x, want);
    ASSERT_EQ(got, want) << "block " << i;
  }
}

TEST_P(QuantTwin, Q6KBytesAreTheSame) {
  Prng prng(6);
  for (int i = 0; i < kBlocks; ++i) {
    const Block x = make_block(prng);
    std::array<std::byte, 210> got{};
    std::array<std::byte, 210> want{};
    encode_row(WeightType::q6_k, x, got);
    test::encode_naive_q6_k(x, want);
    ASSERT_EQ(got, want) << "block " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, QuantTwin,
    testing::Values(
        Kind{"Uniform", [](Prng& prng, std::size_t) { return uniform(prng); }},
        Kind{"BellShaped",
             [](Prng& prng, std::size_t) {
               return 0.02F * (uniform(prng) + uniform(prng) + uniform(prng) + uniform(prng));
             }},
        Kind{"GroupsOfManyMagnitudes",
             [](Prng& prng, std::size_t i) {
               return std::ldexp(uniform(prng), static_cast<int>(i / 16) - 8);
             }},
        Kind{"FlatAndZeroGroupsAmongOthers",
             [](Prng& prng, std::size_t i) {
               const std::size_t group = i / 16 % 4;
               if (group == 0) return 0.0F;
               return group == 1 ? -0.25F : uniform(prng);
             }},
        Kind{"FewDistinctValues",
             [](Prng& prng, std::size_t) { return static_cast<float>(prng.below(3)) - 1.0F; }},
        Kind{"MostlyZero",
             [](Prng& prng, std::size_t) { return prng.below(20) == 0 ? uniform(prng) : 0.0F; }},
        Kind{"AllPositive", [](Prng& prng, std::size_t) { return 1.5F + uniform(prng); }},
        Kind{"AllNegative", [](Prng& prng, std::size_t) { return uniform(prng) - 1.5F; }},
        Kind{"Outliers",
             [](Prng& prng, std::size_t) {
               return prng.below(64) == 0 ? 100.0F * uniform(prng) : 0.01F * uniform(prng);
             }},
        Kind{"ScaleIsSubnormalInF16",
             [](Prng& prng, std::size_t) { return 1e-5F * uniform(prng); }}),
    [](const auto& kind) { return kind.param.title; });

}  // namespace
}  // namespace tenzro::tensor
