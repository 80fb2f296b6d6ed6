// Every line of quantize.inc against the scalar line bit for bit, and the scalar line against the
// rule.
#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tenzro/tensor/block.hpp"
#include "tenzro/tensor/dtype.hpp"

#include "kernels/cases.hpp"
#include "kernels/cpu/backend/kernel_table.hpp"

namespace tenzro::kernels {
namespace {

std::vector<TzQ8Block> quantize(TzQuantizeFn run, const std::vector<float>& x) {
  std::vector<TzQ8Block> blocks(x.size() / 32);
  std::memset(static_cast<void*>(blocks.data()), 0xAB, blocks.size() * sizeof(TzQ8Block));
  run(x.data(), blocks.size(), blocks.data());
  return blocks;
}

TzQuantizeFn scalar() {
  return kernels_up_to(Isa::scalar).quantize.run;
}

class QuantizeLine : public ::testing::TestWithParam<QuantizeKernel> {
 protected:
  void SetUp() override {
    if (!is_available(GetParam().isa))
      GTEST_SKIP() << name_of(GetParam().isa) << " is not available here";
  }
};

TEST_P(QuantizeLine, HasTheBitsOfTheScalarLine) {
  Prng prng(21);
  std::vector<float> x = testing::make_rows(90, 256, prng);
  // Every binade, so that scales cross f16's subnormals, its largest value and f32's smallest.
  for (int exponent = -149; exponent <= 127; ++exponent) {
    for (int i = 0; i < 32; ++i)
      x.push_back(std::ldexp(testing::gaussian(prng) + 4.0F, exponent - 3));
  }
  const auto expected = quantize(scalar(), x);
  const auto found = quantize(GetParam().run, x);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::memcmp(&expected[i], &found[i], sizeof(TzQ8Block)), 0) << "block " << i;
  }
}

TEST_P(QuantizeLine, MarksABlockWithANonFiniteValueAndNoOther) {
  for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    for (std::size_t at = 32; at < 64; ++at) {
      std::vector<float> x(96, 1.0F);
      x[at] = bad;
      const auto blocks = quantize(GetParam().run, x);
      EXPECT_TRUE(std::isnan(blocks[1].scale));
      EXPECT_EQ(blocks[1].sum, 0.0F);
      EXPECT_EQ(blocks[0].q[0], 127);
      EXPECT_FALSE(std::isnan(blocks[2].scale));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, QuantizeLine,
                         ::testing::ValuesIn(quantize_kernels().begin(), quantize_kernels().end()),
                         [](const auto& line) { return std::string(line.param.name); });

TEST(Quantize, AgreesWithTheQ8EncoderWhereF16HoldsTheScale) {
  Prng prng(22);
  for (const testing::RowKind kind :
       {testing::RowKind::normal, testing::RowKind::one_outlier, testing::RowKind::all_equal,
        testing::RowKind::zeros, testing::RowKind::ties}) {
    const auto x = testing::make_row(kind, 256, prng);
    std::vector<std::byte> encoded(tensor::row_bytes(tensor::WeightType::q8_0, x.size()));
    tensor::encode_row(tensor::WeightType::q8_0, x, encoded);
    const auto blocks = quantize(scalar(), x);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      std::uint16_t d = 0;
      std::memcpy(&d, encoded.data() + b * 34, 2);
      EXPECT_EQ(blocks[b].scale, tensor::f16_to_f32(d));
      EXPECT_EQ(std::memcmp(blocks[b].q, encoded.data() + b * 34 + 2, 32), 0) << "block " << b;
    }
  }
}

TEST(Quantize, SumsAreThoseOfTheValues) {
  Prng prng(23);
  for (const TzQ8Block& block : quantize(scalar(), testing::make_rows(9, 256, prng))) {
    int first = 0;
    int second = 0;
    for (int i = 0; i < 16; ++i) first += block.q[i];
    for (int i = 16; i < 32; ++i) second += block.q[i];
    EXPECT_EQ(block.sum, static_cast<float>(first + second));
    EXPECT_EQ(block.minus_128_sum, -128 * (first + second));
    EXPECT_EQ(block.minus_32_first, -32 * first);
    EXPECT_EQ(block.minus_32_second, -32 * second);
  }
}

TEST(Quantize, RoundsHalvesAwayFromZeroAndNothingElse) {
  std::vector<float> x(32, 0.0F);
  x[0] = 127.0F;
  x[1] = 0.5F;
  x[2] = -0.5F;
  x[3] = 2.5F;
  x[4] = 0x1.FFFFFEp-2F;  // just below one half: adding one half first would round it up
  x[5] = -126.5F;
  const auto block = quantize(scalar(), x)[0];
  EXPECT_EQ(block.q[1], 1);
  EXPECT_EQ(block.q[2], -1);
  EXPECT_EQ(block.q[3], 3);
  EXPECT_EQ(block.q[4], 0);
  EXPECT_EQ(block.q[5], -127);
}

TEST(Quantize, KeepsTheF32ScaleWhereF16Overflows) {
  const auto largest = quantize(scalar(), std::vector<float>(32, 65504.0F * 127.0F))[0];
  EXPECT_EQ(largest.scale, 65504.0F);
  const auto beyond = quantize(scalar(), std::vector<float>(32, 1e30F))[0];
  EXPECT_EQ(beyond.scale, 1e30F / 127.0F);
  EXPECT_EQ(beyond.q[0], 127);
}

}  // namespace
}  // namespace tenzro::kernels
