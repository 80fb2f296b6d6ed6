// Every line of matmul.inc against the scalar line of its type, and the scalar line against a plain
// reading of the rules in include/tenzro/compute/backend.hpp.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tenzro/tensor/dtype.hpp"

#include "kernels/cases.hpp"
#include "kernels/cpu/backend/kernel_table.hpp"
#include "kernels/packed.hpp"
#include "support/reference_ffn.hpp"

namespace tenzro::kernels {
namespace {

using tensor::WeightType;
using testing::make_matrix;

constexpr std::size_t kGuard = 3;  // floats beyond a row's outputs that a kernel must leave alone
constexpr float kUntouched = -12345.0F;

const MatmulKernel& scalar_of(WeightType type) {
  for (const MatmulKernel& kernel : matmul_kernels()) {
    if (kernel.type == type && kernel.isa == Isa::scalar) return kernel;
  }
  return matmul_kernels().front();
}

/// Rows of activations in the form that the matrix's kernels read.
struct Rows {
  std::vector<float> values;
  std::vector<TzQ8Block> blocks;
  std::vector<const void*> pointers;
};

Rows make_input(std::vector<float> values, std::size_t cols, WeightType type) {
  Rows rows{std::move(values), {}, {}};
  const std::size_t count = rows.values.size() / cols;
  if (tensor::is_quantized(type)) {
    rows.blocks.resize(rows.values.size() / 32);
    kernels_up_to(Isa::scalar)
        .quantize.run(rows.values.data(), rows.blocks.size(), rows.blocks.data());
  }
  for (std::size_t r = 0; r < count; ++r) {
    if (tensor::is_quantized(type)) {
      rows.pointers.push_back(rows.blocks.data() + r * cols / 32);
    } else {
      rows.pointers.push_back(rows.values.data() + r * cols);
    }
  }
  return rows;
}

std::vector<float> run(const MatmulKernel& kernel, const PackedMatrix& matrix,
                       std::span<const void* const> x) {
  const std::size_t stride = matrix.rows + kGuard;
  std::vector<float> out(x.size() * stride, kUntouched);
  const TzMatmul job{.weights = matrix.panels.data(),
                     .panel_bytes = matrix.panel_bytes,
                     .k = matrix.cols,
                     .x = x.data(),
                     .rows = x.size(),
                     .out = out.data(),
                     .out_stride = stride,
                     .cols = matrix.rows,
                     .bias = matrix.bias.empty() ? nullptr : matrix.bias.data()};
  kernel.run(&job);
  return out;
}

std::string name_of_line(const ::testing::TestParamInfo<MatmulKernel>& info) {
  return std::string(info.param.name);
}

class MatmulLine : public ::testing::TestWithParam<MatmulKernel> {
 protected:
  void SetUp() override {
    if (!is_available(GetParam().isa))
      GTEST_SKIP() << name_of(GetParam().isa) << " is not available here";
  }
};

TEST_P(MatmulLine, HasTheBitsOfTheScalarLineForEveryTileAndTail) {
  const MatmulKernel& kernel = GetParam();
  Prng prng(17);
  const std::uint32_t unit = static_cast<std::uint32_t>(tensor::block_elements(kernel.type));
  const std::vector<std::uint32_t> depths =
      unit == 1 ? std::vector<std::uint32_t>{1, 2, 7, 32, 33, 96}
                : std::vector<std::uint32_t>{unit, 2 * unit, 3 * unit};
  for (const std::uint32_t cols : depths) {
    for (const std::uint32_t outputs : {1U, 15U, 16U, 17U, 31U, 32U, 48U, 70U, 80U, 100U}) {
      const auto owned = make_matrix(kernel.type, outputs, cols, prng);
      const auto bias = testing::make_row(testing::RowKind::normal, outputs, prng);
      const Packed matrix = pack(
          owned.view, outputs % 2 == 0 ? std::span<const float>(bias) : std::span<const float>());
      for (std::size_t rows = 1; rows <= 8; ++rows) {
        const Rows input = make_input(testing::make_rows(rows, cols, prng), cols, kernel.type);
        const auto expected = run(scalar_of(kernel.type), matrix, input.pointers);
        const auto found = run(kernel, matrix, input.pointers);
        ASSERT_EQ(testing::first_difference(expected, found), "")
            << kernel.name << " k=" << cols << " outputs=" << outputs << " rows=" << rows;
      }
    }
  }
}

TEST_P(MatmulLine, GivesARowTheSameBitsInEveryPlaceOfATile) {
  const MatmulKernel& kernel = GetParam();
  Prng prng(18);
  constexpr std::uint32_t kCols = 512;
  constexpr std::uint32_t kOutputs = 40;
  const auto owned = make_matrix(kernel.type, kOutputs, kCols, prng);
  const Packed matrix = pack(owned.view, {});
  for (const testing::RowKind kind : testing::kRowKinds) {
    const Rows input = make_input(testing::make_row(kind, kCols, prng), kCols, kernel.type);
    const Rows others = make_input(testing::make_rows(8, kCols, prng), kCols, kernel.type);
    auto alone = run(kernel, matrix, input.pointers);
    for (std::size_t place = 0; place < 8; ++place) {
      auto pointers = others.pointers;
      pointers[place] = input.pointers[0];
      const auto together = run(kernel, matrix, pointers);
      const auto begin = together.begin() + static_cast<std::ptrdiff_t>(place * alone.size());
      const std::vector<float> row(begin, begin + static_cast<std::ptrdiff_t>(alone.size()));
      ASSERT_EQ(testing::first_difference(alone, row), "") << kernel.name << " place " << place;
    }
  }
}

TEST_P(MatmulLine, LetsANonFiniteActivationReachEveryOutputOfItsRowAndNoOther) {
  const MatmulKernel& kernel = GetParam();
  Prng prng(19);
  constexpr std::uint32_t kCols = 256;
  constexpr std::uint32_t kOutputs = 16;
  const auto owned = make_matrix(kernel.type, kOutputs, kCols, prng);
  const Packed matrix = pack(owned.view, {});
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    auto values = testing::make_normal_rows(3, kCols, prng);
    values[kCols + 100] = bad;
    const Rows input = make_input(values, kCols, kernel.type);
    const auto out = run(kernel, matrix, input.pointers);
    for (std::size_t n = 0; n < kOutputs; ++n) {
      EXPECT_TRUE(std::isfinite(out[n]));
      EXPECT_FALSE(std::isfinite(out[kOutputs + kGuard + n])) << kernel.name << " output " << n;
      EXPECT_TRUE(std::isfinite(out[2 * (kOutputs + kGuard) + n]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, MatmulLine,
                         ::testing::ValuesIn(matmul_kernels().begin(), matmul_kernels().end()),
                         name_of_line);

TEST(FastKernels, NarrowRoundsToNearestEvenAndPadsAnOddRow) {
  Prng prng(23);
  for (const FastKernel& kernel : fast_kernels()) {
    if (!kernel.is_available()) continue;
    for (std::size_t n = 1; n <= 100; ++n) {
      const auto x = testing::make_normal_rows(1, n, prng);
      std::vector<std::uint16_t> out(n + n % 2 + 1, 0xABCD);
      kernel.narrow(x.data(), n, out.data());
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(out[i], tensor::f32_to_bf16(x[i])) << i << " of " << n;
      }
      if (n % 2 != 0) {
        ASSERT_EQ(out[n], 0) << n;
      }
      ASSERT_EQ(out.back(), 0xABCD) << n;
    }
  }
}

// Products of bf16 are exact in f32; the sums round: |error| <= (K + 2) * 2^-24 * sum |w x|.
TEST(FastKernels, DotStaysWithinTheRoundingOfItsAccumulator) {
  Prng prng(24);
  for (const FastKernel& kernel : fast_kernels()) {
    if (!kernel.is_available()) continue;
    for (const std::uint32_t cols : {1U, 2U, 33U, 512U}) {
      const auto owned = make_matrix(kernel.type, 70, cols, prng);
      const Packed matrix = pack(owned.view, {});
      for (std::size_t rows = 1; rows <= 8; ++rows) {
        const std::size_t stride = cols + cols % 2;
        const auto x = testing::make_normal_rows(rows, cols, prng);
        std::vector<std::uint16_t> narrow(rows * stride);
        std::vector<const void*> pointers;
        for (std::size_t r = 0; r < rows; ++r) {
          kernel.narrow(x.data() + r * cols, cols, narrow.data() + r * stride);
          pointers.push_back(narrow.data() + r * stride);
        }
        const MatmulKernel line{.name = kernel.name,
                                .type = kernel.type,
                                .isa = kernel.isa,
                                .tile_rows = 8,
                                .tile_outputs = 16,
                                .run = kernel.run};
        const auto out = run(line, matrix, pointers);
        std::vector<float> weights(cols);
        for (std::uint32_t n = 0; n < 70; ++n) {
          tensor::decode_row(kernel.type, owned.view.row(n), weights);
          double sum = 0.0;
          double magnitude = 0.0;
          for (std::size_t k = 0; k < cols; ++k) {
            const double product =
                static_cast<double>(weights[k]) *
                static_cast<double>(tensor::bf16_to_f32(narrow[(rows - 1) * stride + k]));
            sum += product;
            magnitude += std::fabs(product);
          }
          ASSERT_NEAR(out[(rows - 1) * (70 + kGuard) + n], sum, (cols + 2) * 0x1p-24 * magnitude);
        }
        ASSERT_EQ(out.back(), kUntouched);
      }
    }
  }
}

// What separates an f32 accumulator from a double one: each of the n additions (and the product
// with the scales, which rounds once more for the block types) errs by at most 2^-24 of the running
// sum, itself at most sum |w x|. So |error| <= (n + 2) * 2^-24 * sum |w x|, with n = K for dense
// weights, K/32 for Q8_0 and Q6_K, 2K/32 for Q4_K.
double additions(WeightType type, double k) {
  switch (type) {
    case WeightType::q8_0:
    case WeightType::q6_k:
      return k / 32.0;
    case WeightType::q4_k:
      return k / 16.0;
    default:
      return k;
  }
}

class ScalarMatmul : public ::testing::TestWithParam<WeightType> {};

TEST_P(ScalarMatmul, StaysWithinTheRoundingOfItsAccumulatorOfADoubleSum) {
  const WeightType type = GetParam();
  Prng prng(20);
  constexpr std::uint32_t kCols = 2048;
  constexpr std::uint32_t kOutputs = 24;
  const auto owned = make_matrix(type, kOutputs, kCols, prng);
  const Packed matrix = pack(owned.view, {});
  const auto values = testing::make_normal_rows(4, kCols, prng);
  const Rows input = make_input(values, kCols, type);
  const auto out = run(scalar_of(type), matrix, input.pointers);
  std::vector<float> weights(kCols);
  for (std::size_t r = 0; r < 4; ++r) {
    const std::vector<double> row(values.begin() + static_cast<std::ptrdiff_t>(r * kCols),
                                  values.begin() + static_cast<std::ptrdiff_t>((r + 1) * kCols));
    const auto x = tensor::is_quantized(type) ? testing::rounded_to_q8_0(row) : row;
    const auto expected = testing::reference_matmul(owned.view, x, {});
    for (std::uint32_t n = 0; n < kOutputs; ++n) {
      tensor::decode_row(type, owned.view.row(n), weights);
      double magnitude = 0.0;
      for (std::size_t k = 0; k < kCols; ++k)
        magnitude += std::fabs(static_cast<double>(weights[k]) * x[k]);
      // Q4_K sums d*q and dmin*m apart, so its terms may be larger than their sum: up to 3 times
      // for these rows.
      const double terms = type == WeightType::q4_k ? 3.0 * magnitude : magnitude;
      const double bound = (additions(type, kCols) + 2.0) * 0x1p-24 * terms;
      EXPECT_NEAR(out[r * (kOutputs + kGuard) + n], expected[n], bound)
          << "row " << r << " output " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ScalarMatmul, ::testing::ValuesIn(testing::kWeightTypes),
                         [](const auto& line) { return std::string(tensor::name_of(line.param)); });

}  // namespace
}  // namespace tenzro::kernels
