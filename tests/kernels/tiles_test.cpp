// Every line of tiles.inc, on the tiles of this CPU and on emulated ones: `exact` against the bits
// of the scalar kernels, `fast` against a double sum; alone and under the backend.
#include <algorithm>
#include <atomic>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/tensor/dtype.hpp"

#include "kernels/cases.hpp"
#include "kernels/cpu/backend/cpu_backend.hpp"
#include "kernels/cpu/backend/tile_rows.hpp"
#include "kernels/emulated_tiles.hpp"
#include "kernels/packed.hpp"
#include "kernels/threads.hpp"
#include "support/reference_ffn.hpp"
#include "support/relative_l2.hpp"

namespace tenzro::kernels {
namespace {

using compute::Activation;
using compute::Profile;
using tensor::WeightType;
using testing::Biases;
using testing::make_expert;
using testing::OwnedExpert;

constexpr std::size_t kGuard = 3;  // floats beyond a row's outputs that a kernel must leave alone
constexpr float kUntouched = -12345.0F;
constexpr std::size_t kScratch = std::size_t{32} << 20U;

enum class Tiles { emulated, real };

/// Kernels with tiles of the kind, or those without where this CPU cannot run them.
KernelSet kernels_with(Tiles tiles) {
  if (tiles == Tiles::real) return kernels_up_to(Isa::amx);
  KernelSet set = kernels_up_to(Isa::avx512vnni);
  set.tiles = testing::emulated_tile_kernels();
  return set;
}

bool is_available(Tiles tiles) {
  return tiles == Tiles::real ? kernels::is_available(Isa::amx) : testing::can_emulate_tiles();
}

class TileLine : public ::testing::TestWithParam<Tiles> {
 protected:
  void SetUp() override {
    if (is_available(GetParam())) return;
    GTEST_SKIP() << (GetParam() == Tiles::real ? "this CPU has no AMX, or Linux refuses its tiles"
                                               : "no AVX-512 with VNNI and BF16 around the tiles");
  }
};

struct Input {
  RowFormat format = RowFormat::f32;
  std::size_t rows = 0;
  std::vector<std::byte> bytes;
  std::vector<const void*> pointers;
};

Input make_input(const Multiplier& multiplier, RowFormat format, const std::vector<float>& values,
                 std::size_t cols) {
  Input input{.format = format, .rows = values.size() / cols, .bytes = {}, .pointers = {}};
  const std::size_t stride = row_bytes(format, cols);
  input.bytes.resize(input.rows * stride);
  for (std::size_t r = 0; r < input.rows; ++r) {
    multiplier.convert(format, values.data() + r * cols, cols, input.bytes.data() + r * stride);
    input.pointers.push_back(input.bytes.data() + r * stride);
  }
  return input;
}

std::vector<float> run_tiles(const TileKernel& kernel, const PackedMatrix& matrix,
                             const Input& input) {
  const Lines tiles = make_lines(tiles_bytes(input.format, input.rows, matrix.cols));
  for (std::size_t row = 0; row < input.rows; row += kTileRows) {
    pack_tile(input.format,
              std::span(input.pointers).subspan(row, std::min(kTileRows, input.rows - row)),
              matrix.cols, bytes_of(tiles) + tiles_bytes(input.format, row, matrix.cols));
  }
  const Lines scratch = make_lines(Multiplier::scratch_bytes(matrix.cols));
  const std::size_t stride = matrix.rows + kGuard;
  std::vector<float> out(input.rows * stride, kUntouched);
  Multiplier::multiply_tiles(kernel, matrix, {0, matrix.rows}, tiles.get(), input.rows, out.data(),
                             stride, scratch.get());
  return out;
}

std::vector<float> run_scalar(const PackedMatrix& matrix, const Input& input) {
  const KernelSet scalar = kernels_up_to(Isa::scalar);
  const std::size_t stride = matrix.rows + kGuard;
  std::vector<float> out(input.rows * stride, kUntouched);
  Multiplier(scalar, Profile::exact)
      .multiply(matrix, {0, matrix.rows}, input.pointers, out.data(), stride);
  return out;
}

TEST_P(TileLine, ExactHasTheBitsOfTheScalarKernelForEveryTail) {
  const KernelSet set = kernels_with(GetParam());
  const Multiplier multiplier(set, Profile::exact);
  Prng prng(31);
  for (const WeightType type : {WeightType::q8_0, WeightType::q4_k, WeightType::q6_k}) {
    const TileKernel* kernel = set.tiles_of(type, Profile::exact);
    ASSERT_NE(kernel, nullptr);
    const auto unit = static_cast<std::uint32_t>(tensor::block_elements(type));
    for (const std::uint32_t cols : {unit, 2 * unit, 3 * unit, 5 * unit}) {
      for (const std::uint32_t outputs : {1U, 16U, 17U, 31U, 48U}) {
        const auto owned = testing::make_matrix(type, outputs, cols, prng);
        const auto bias = testing::make_row(testing::RowKind::normal, outputs, prng);
        const Packed matrix = pack(
            owned.view, outputs % 2 == 0 ? std::span<const float>(bias) : std::span<const float>());
        for (const std::size_t rows : {1U, 3U, 4U, 5U, 8U, 9U, 15U, 16U, 17U, 33U, 67U}) {
          const Input input =
              make_input(multiplier, RowFormat::q8_0, testing::make_rows(rows, cols, prng), cols);
          ASSERT_EQ(testing::first_difference(run_scalar(matrix, input),
                                              run_tiles(*kernel, matrix, input)),
                    "")
              << kernel->name << " k=" << cols << " outputs=" << outputs << " rows=" << rows;
        }
      }
    }
  }
}

TEST_P(TileLine, ExactTakesTheLargestQuantsThereAre) {
  const KernelSet set = kernels_with(GetParam());
  const Multiplier multiplier(set, Profile::exact);
  Prng prng(32);
  constexpr std::uint32_t kCols = 512;
  for (const WeightType type : {WeightType::q8_0, WeightType::q4_k, WeightType::q6_k}) {
    auto owned = testing::make_matrix(type, 32, kCols, prng);
    for (std::byte& byte : owned.bytes) byte = std::byte{0x7B};  // scales finite, quants at an end
    const Packed matrix = pack(owned.view, {});
    std::vector<float> values(20 * kCols);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = i / kCols % 2 == 0 ? 127.0F : -127.0F;
    const Input input = make_input(multiplier, RowFormat::q8_0, values, kCols);
    EXPECT_EQ(
        testing::first_difference(run_scalar(matrix, input),
                                  run_tiles(*set.tiles_of(type, Profile::exact), matrix, input)),
        "")
        << tensor::name_of(type);
  }
}

TEST_P(TileLine, LetsANonFiniteActivationReachItsRowAndNoOther) {
  const KernelSet set = kernels_with(GetParam());
  Prng prng(33);
  constexpr std::uint32_t kCols = 256;
  for (const TileKernel& kernel : set.tiles) {
    const Multiplier multiplier(set, kernel.profile);
    const auto owned = testing::make_matrix(kernel.type, 16, kCols, prng);
    const Packed matrix = pack(owned.view, {});
    auto values = testing::make_normal_rows(20, kCols, prng);
    values[17 * kCols + 100] = INFINITY;
    const RowFormat format = kernel.profile == Profile::exact ? RowFormat::q8_0 : RowFormat::bf16;
    const auto out = run_tiles(kernel, matrix, make_input(multiplier, format, values, kCols));
    for (std::size_t row = 0; row < 20; ++row) {
      for (std::size_t n = 0; n < 16; ++n) {
        ASSERT_EQ(std::isfinite(out[row * (16 + kGuard) + n]), row != 17) << kernel.name;
      }
    }
  }
}

// Weights and rows as bf16 differ from theirs by 2^-9 at most, each; the products by 2^-8, and the
// f32 sums by their own rounding. |error| <= (2^-8 + (K + 2) 2^-24) * sum |w x|; Q4_K forms its
// weight as d*q - m, whose terms are up to 3 times as large for these rows (matmul_test.cpp).
TEST_P(TileLine, FastStaysWithinTheRoundingOfBf16) {
  const KernelSet set = kernels_with(GetParam());
  const Multiplier multiplier(set, Profile::fast);
  Prng prng(34);
  for (const TileKernel& kernel : set.tiles) {
    if (kernel.profile != Profile::fast) continue;
    const bool is_dense = !tensor::is_quantized(kernel.type);
    for (const std::uint32_t cols : is_dense ? std::vector<std::uint32_t>{1, 33, 64, 255}
                                             : std::vector<std::uint32_t>{256, 512}) {
      for (const std::uint32_t outputs : {1U, 16U, 33U, 48U, 70U}) {
        const auto owned = testing::make_matrix(kernel.type, outputs, cols, prng);
        const auto bias = testing::make_row(testing::RowKind::normal, outputs, prng);
        const Packed matrix = pack(owned.view, bias);
        for (const std::size_t rows : {1U, 16U, 17U, 32U, 49U}) {
          const auto values = testing::make_normal_rows(rows, cols, prng);
          const auto out =
              run_tiles(kernel, matrix, make_input(multiplier, RowFormat::bf16, values, cols));
          std::vector<float> weights(cols);
          for (std::uint32_t n = 0; n < outputs; ++n) {
            tensor::decode_row(kernel.type, owned.view.row(n), weights);
            for (std::size_t r = 0; r < rows; ++r) {
              double sum = bias[n];
              double magnitude = std::fabs(static_cast<double>(bias[n]));
              for (std::size_t k = 0; k < cols; ++k) {
                const double product =
                    static_cast<double>(weights[k]) * static_cast<double>(values[r * cols + k]);
                sum += product;
                magnitude += std::fabs(product);
              }
              const double terms = kernel.type == WeightType::q4_k ? 3.0 : 1.0;
              ASSERT_NEAR(out[r * (outputs + kGuard) + n], sum,
                          (0x1p-8 + (cols + 2) * 0x1p-24) * terms * magnitude)
                  << kernel.name << " k=" << cols << " rows=" << rows << " row " << r;
            }
          }
          ASSERT_EQ(out.back(), kUntouched) << kernel.name;
        }
      }
    }
  }
}

/// One expert over all rows of `input`.
std::vector<float> run_expert(const KernelSet& set, const OwnedExpert& expert,
                              const std::vector<float>& input, Profile profile,
                              compute::Executor& executor, std::size_t scratch = kScratch) {
  CpuBackend backend(set, scratch);
  const auto resident = backend.upload_expert(expert.view(), executor);
  EXPECT_TRUE(resident.has_value());
  const std::uint32_t d_model = expert.view().d_model();
  std::vector<std::uint32_t> rows(input.size() / d_model);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i);
  std::vector<float> out(input.size());
  const compute::ExpertBatch batch{.expert = resident->get(), .rows = rows, .out = out.data()};
  const compute::ExpertsJob job{.profile = profile,
                                .input = input.data(),
                                .input_rows = static_cast<std::uint32_t>(rows.size()),
                                .d_model = d_model,
                                .batches = {&batch, 1}};
  EXPECT_TRUE(backend.run_experts(job, executor).has_value());
  return out;
}

struct Types {
  WeightType gate;
  WeightType up;
  WeightType down;
};

// Gate and up of two types run without tiles; a dense down follows tiles, and the other way round.
constexpr Types kTypes[] = {{WeightType::q8_0, WeightType::q8_0, WeightType::q8_0},
                            {WeightType::q4_k, WeightType::q4_k, WeightType::q6_k},
                            {WeightType::q6_k, WeightType::q4_k, WeightType::q4_k},
                            {WeightType::q6_k, WeightType::q6_k, WeightType::bf16},
                            {WeightType::f32, WeightType::q8_0, WeightType::q8_0},
                            {WeightType::bf16, WeightType::bf16, WeightType::q8_0}};

OwnedExpert expert_of(const Types& types, Activation activation, std::uint64_t seed) {
  OwnedExpert expert =
      make_expert({512, 256}, types.up, types.down, activation, Biases::present, seed);
  Prng prng(seed + 100);
  if (expert.gate) expert.gate = testing::make_matrix(types.gate, 256, 512, prng);
  return expert;
}

TEST_P(TileLine, ABackendWithTilesHasTheBitsOfTheScalarOneForEveryBatchThreadsAndScratch) {
  const KernelSet set = kernels_with(GetParam());
  compute::SerialExecutor serial;
  Prng prng(35);
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    const auto activation = static_cast<Activation>(i % 6);
    const auto expert = expert_of(kTypes[i], activation, i);
    const auto input = testing::make_rows(67, 512, prng);
    const auto expected =
        run_expert(kernels_up_to(Isa::scalar), expert, input, Profile::exact, serial);
    for (const std::ptrdiff_t rows : {1, 8, 9, 16, 23, 67}) {
      for (const std::size_t threads : {1U, 3U}) {
        testing::ThreadsExecutor executor(threads);
        const std::size_t scratch = threads == 3 ? std::size_t{40} << 10U : kScratch;
        ASSERT_EQ(testing::first_difference(
                      {expected.begin(), expected.begin() + rows * 512},
                      run_expert(set, expert, {input.begin(), input.begin() + rows * 512},
                                 Profile::exact, executor, scratch)),
                  "")
            << "types " << i << " rows " << rows << " threads " << threads;
      }
    }
  }
}

// Three roundings of rows to bf16 (backend_test.cpp: 6e-3 of the row) and as many of weights, which
// are no larger: twice that.
TEST_P(TileLine, ABackendWithTilesStaysNearTheDoubleReferenceInProfileFast) {
  const KernelSet set = kernels_with(GetParam());
  compute::SerialExecutor serial;
  Prng prng(36);
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    const auto expert = expert_of(kTypes[i], Activation::silu, i);
    const auto input = testing::make_normal_rows(19, 512, prng);
    const auto expected =
        testing::reference_ffn(expert.view(), input, testing::ActivationRounding::none);
    const auto found = run_expert(set, expert, input, Profile::fast, serial);
    EXPECT_LE(testing::relative_l2(found, expected), 12e-3) << "types " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TileLine, ::testing::Values(Tiles::emulated, Tiles::real),
                         [](const auto& kind) {
                           return kind.param == Tiles::emulated ? "Emulated" : "Amx";
                         });

std::atomic<std::size_t> tile_calls{0};

void counting_tiles(const TzTiles* /*job*/) {
  tile_calls.fetch_add(1);
}

TEST(TileKernels, RunFromNineRowsOnAndNotBelow) {
  static constexpr TileKernel kCounting[] = {
      {"counting", WeightType::q8_0, Profile::exact, Isa::scalar, counting_tiles}};
  KernelSet set = kernels_up_to(Isa::scalar);
  set.tiles = kCounting;
  compute::SerialExecutor serial;
  Prng prng(37);
  const auto expert = make_expert({64, 64}, WeightType::q8_0, WeightType::q8_0, Activation::silu,
                                  Biases::absent, 1);
  tile_calls = 0;
  run_expert(set, expert, testing::make_rows(8, 64, prng), Profile::exact, serial);
  EXPECT_EQ(tile_calls.load(), 0U);
  run_expert(set, expert, testing::make_rows(9, 64, prng), Profile::exact, serial);
  EXPECT_EQ(tile_calls.load(), 5U);  // gate and up, 32 columns each time, and down once
}

TEST(TileKernels, AreOfAmxAloneAndCoverEveryQuantisedTypeInBothProfiles) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512vnni}) {
    EXPECT_TRUE(kernels_up_to(isa).tiles.empty()) << name_of(isa);
  }
  for (const TileKernel& kernel : tile_kernels()) {
    EXPECT_EQ(kernel.isa, Isa::amx);
    EXPECT_TRUE(kernel.name.ends_with("__amx")) << kernel.name;
  }
  KernelSet set = kernels_up_to(Isa::scalar);
  set.tiles = tile_kernels();
  for (const WeightType type : {WeightType::q8_0, WeightType::q4_k, WeightType::q6_k}) {
    EXPECT_NE(set.tiles_of(type, Profile::exact), nullptr);
    EXPECT_EQ(set.tiles_of(type, Profile::fast), nullptr);  // nothing here makes bf16 rows
  }
}

}  // namespace
}  // namespace tenzro::kernels
