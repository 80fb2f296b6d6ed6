// Every line of encode.inc against tensor::encode_row, byte for byte, and against ggml's goldens.
#include <algorithm>
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/tensor/dtype.hpp"

#include "kernels/cpu/backend/cpu_row_encoder.hpp"
#include "unit/tensor/golden_file.hpp"

namespace tenzro::kernels {
namespace {

using tensor::DType;
using tensor::WeightType;

class EncodeLine : public ::testing::TestWithParam<EncodeKernel> {
 protected:
  void SetUp() override {
    if (!is_available(GetParam().isa))
      GTEST_SKIP() << name_of(GetParam().isa) << " is not available here";
  }

  /// `x` as the line's source elements; rounded to bf16 where it reads that.
  [[nodiscard]] std::vector<float> as_source(std::vector<float> x) const {
    if (GetParam().source != DType::bf16) return x;
    for (float& value : x) value = tensor::bf16_to_f32(tensor::f32_to_bf16(value));
    return x;
  }

  [[nodiscard]] std::vector<std::byte> run(const std::vector<float>& x) const {
    const std::size_t blocks = x.size() / block_elements(GetParam().type);
    // One byte more than a row has, to see that it is left alone.
    std::vector<std::byte> out(row_bytes(GetParam().type, x.size()) + 1, std::byte{0xAB});
    std::vector<std::byte> source(x.size() * bytes_of(GetParam().source));
    encode_row(GetParam().source == DType::bf16 ? WeightType::bf16 : WeightType::f32, x, source);
    GetParam().run(source.data(), blocks,
                   static_cast<std::uint8_t*>(static_cast<void*>(out.data())));
    EXPECT_EQ(out.back(), std::byte{0xAB});
    out.pop_back();
    return out;
  }

  void expect_reference(const std::vector<float>& raw, const std::string& what) const {
    const std::vector<float> x = as_source(raw);
    std::vector<std::byte> expected(row_bytes(GetParam().type, x.size()));
    encode_row(GetParam().type, x, expected);
    const std::vector<std::byte> got = run(x);
    const std::size_t block = block_bytes(GetParam().type);
    for (std::size_t b = 0; b * block < expected.size(); ++b) {
      const auto at = static_cast<std::ptrdiff_t>(b * block);
      ASSERT_TRUE(std::equal(expected.begin() + at,
                             expected.begin() + at + static_cast<std::ptrdiff_t>(block),
                             got.begin() + at))
          << what << ", block " << b;
    }
  }
};

float gaussian(Prng& prng) {
  float sum = 0;
  for (int i = 0; i < 12; ++i) sum += static_cast<float>(prng.below(1U << 20U)) * 0x1p-20F;
  return sum - 6.0F;
}

TEST_P(EncodeLine, GivesTheBytesOfTheScalarEncoderOnGaussianRowsOfAnyLength) {
  Prng prng(61);
  for (std::size_t blocks = 1; blocks <= 40; ++blocks) {
    std::vector<float> x(blocks * 256);
    for (float& value : x) value = gaussian(prng) * 0.04F;
    expect_reference(x, std::to_string(blocks) + " blocks of 256");
  }
}

TEST_P(EncodeLine, GivesTheBytesOfTheScalarEncoderInEveryBinade) {
  Prng prng(62);
  for (int exponent = -149; exponent <= 127; ++exponent) {
    std::vector<float> x(512);
    for (float& value : x) value = std::ldexp(gaussian(prng), exponent - 3);
    expect_reference(x, "2^" + std::to_string(exponent));
  }
}

TEST_P(EncodeLine, GivesTheBytesOfTheScalarEncoderOnOddRows) {
  Prng prng(63);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> x(768);
    const std::uint64_t kind = prng.below(7);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float g = gaussian(prng);
      if (kind == 0) x[i] = g * g * g;
      if (kind == 1) x[i] = std::fabs(g);
      if (kind == 2) x[i] = -std::fabs(g);
      if (kind == 3) x[i] = i / 32 % 3 == 0 ? 0.0F : g;
      if (kind == 4) x[i] = i / 16 % 2 == 0 ? 0.25F : g * 1e-6F;
      if (kind == 5) x[i] = static_cast<float>(static_cast<int>(prng.below(9)) - 4) * 0.5F;
      if (kind == 6) x[i] = prng.below(200) == 0 ? g * 1e4F : -0.0F;
    }
    expect_reference(x, "kind " + std::to_string(kind));
  }
}

TEST_P(EncodeLine, RoundsHalvesAwayFromZeroAndNothingElse) {
  if (GetParam().type != WeightType::q8_0) return;  // the others round to even
  std::vector<float> x(512, 0.0F);
  x[0] = 127.0F;
  for (int i = 1; i < 32; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i) - 16.5F;
  x[33] = 127.0F;
  x[34] = std::nextafter(0.5F, 0.0F);
  x[35] = std::nextafter(-0.5F, 0.0F);
  x[36] = std::nextafter(2.5F, 0.0F);
  x[37] = 126.5F;
  expect_reference(x, "halves");
}

TEST_P(EncodeLine, MarksABlockWithANonFiniteValueAndNoOther) {
  Prng prng(64);
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    for (std::size_t at = 0; at < 768; at += 37) {
      std::vector<float> x(768);
      for (float& value : x) value = gaussian(prng);
      x[at] = bad;
      const std::vector<float> source = as_source(x);
      const std::vector<std::byte> got = run(source);
      const std::size_t block = block_bytes(GetParam().type);
      std::vector<std::byte> expected(row_bytes(GetParam().type, x.size()));
      encode_row(GetParam().type, source, expected);
      EXPECT_EQ(got, expected) << at;
      const std::size_t marked = at / block_elements(GetParam().type);
      EXPECT_FALSE(is_finite_row(GetParam().type, std::span(got).subspan(marked * block, block)));
    }
  }
}

TEST_P(EncodeLine, GivesGgmlsBytesOnTheGoldenRows) {
  if (GetParam().source != DType::f32) return;  // the goldens are f32
  const auto arrays = tensor::test::read_golden_arrays("quant_goldens");
  const std::string type = GetParam().type == WeightType::q8_0   ? "Q8_0"
                           : GetParam().type == WeightType::q4_k ? "Q4_K"
                                                                 : "Q6_K";
  int compared = 0;
  for (const auto& [name, quantised] : arrays) {
    const std::size_t at = name.find("/" + type + "/q");
    if (at == std::string::npos || !quantised.byte_stable) continue;
    const auto input = arrays.find(name.substr(0, at) + "/x");
    if (input == arrays.end()) continue;
    EXPECT_EQ(run(input->second.as<float>()), quantised.bytes) << name;
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

INSTANTIATE_TEST_SUITE_P(Table, EncodeLine,
                         ::testing::ValuesIn(encode_kernels().begin(), encode_kernels().end()),
                         [](const auto& line) { return std::string(line.param.name); });

TEST(CpuRowEncoder, TakesEveryDtypeToEveryTypeAsTheScalarOneDoes) {
  Prng prng(65);
  std::vector<float> x(2304);  // more than a chunk
  for (float& value : x) value = gaussian(prng);
  const CpuRowEncoder fast(best_isa());
  const tensor::RowEncoder scalar;
  for (const auto& [dtype, as] :
       {std::pair(DType::f32, WeightType::f32), std::pair(DType::f16, WeightType::f16),
        std::pair(DType::bf16, WeightType::bf16)}) {
    std::vector<std::byte> row(x.size() * bytes_of(dtype));
    encode_row(as, x, row);
    for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16,
                                  WeightType::q8_0, WeightType::q4_k, WeightType::q6_k}) {
      std::vector<std::byte> expected(row_bytes(type, x.size()));
      std::vector<std::byte> got(expected.size());
      scalar.encode(type, dtype, row, expected);
      fast.encode(type, dtype, row, got);
      EXPECT_EQ(got, expected) << name_of(dtype) << " to " << name_of(type);
    }
  }
}

}  // namespace
}  // namespace tenzro::kernels
