// The backend as its users see it: every ISA gives the same bits, whatever the batch, the threads
// and the scratch.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/cases.hpp"
#include "kernels/cpu/backend/cpu_backend.hpp"
#include "kernels/threads.hpp"
#include "support/reference_ffn.hpp"
#include "support/relative_l2.hpp"

namespace tenzro::kernels {
namespace {

using compute::Activation;
using tensor::WeightType;
using testing::Biases;
using testing::make_expert;
using testing::OwnedExpert;
using testing::relative_l2;

constexpr Isa kIsas[] = {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512vnni, Isa::amx};
constexpr std::size_t kScratch = std::size_t{32} << 20U;

std::vector<std::uint32_t> all_rows(std::size_t count) {
  std::vector<std::uint32_t> rows(count);
  for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<std::uint32_t>(i);
  return rows;
}

std::shared_ptr<const compute::ResidentExpert> upload(compute::Backend& backend,
                                                      const OwnedExpert& expert) {
  compute::SerialExecutor serial;
  auto resident = backend.upload_expert(expert.view(), serial);
  EXPECT_TRUE(resident.has_value());
  return *resident;
}

/// One expert over all rows of `input`.
std::vector<float> run_expert(compute::Backend& backend, const OwnedExpert& expert,
                              const std::vector<float>& input, compute::Executor& executor,
                              compute::Profile profile = compute::Profile::exact) {
  const auto resident = upload(backend, expert);
  const std::uint32_t d_model = expert.view().d_model();
  const auto rows = all_rows(input.size() / d_model);
  std::vector<float> out(input.size());
  const compute::ExpertBatch batch{.expert = resident.get(), .rows = rows, .out = out.data()};
  const compute::ExpertsJob job{.profile = profile,
                                .input = input.data(),
                                .input_rows = static_cast<std::uint32_t>(rows.size()),
                                .d_model = d_model,
                                .batches = {&batch, 1}};
  EXPECT_TRUE(backend.run_experts(job, executor).has_value());
  return out;
}

std::vector<float> run_serially(Isa isa, const OwnedExpert& expert,
                                const std::vector<float>& input) {
  CpuBackend backend(kernels_up_to(isa), kScratch);
  compute::SerialExecutor serial;
  return run_expert(backend, expert, input, serial);
}

struct TypePair {
  WeightType type;
  WeightType down;
};

// Q4_K with a Q8_0 or Q6_K down is what quantised checkpoints hold.
constexpr TypePair kTypePairs[] = {
    {WeightType::f32, WeightType::f32},   {WeightType::f16, WeightType::f16},
    {WeightType::bf16, WeightType::bf16}, {WeightType::q8_0, WeightType::q8_0},
    {WeightType::q4_k, WeightType::q8_0}, {WeightType::q4_k, WeightType::q6_k},
    {WeightType::q6_k, WeightType::bf16}, {WeightType::bf16, WeightType::q8_0}};

class BackendIsa : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!is_available(GetParam())) GTEST_SKIP() << name_of(GetParam()) << " is not available here";
  }
};

/// What the scalar backend and `isa`'s disagree about; empty where they have the same bits.
std::string difference_to_scalar(Isa isa, const OwnedExpert& expert,
                                 const std::vector<float>& input) {
  return testing::first_difference(run_serially(Isa::scalar, expert, input),
                                   run_serially(isa, expert, input));
}

TEST_P(BackendIsa, HasTheBitsOfTheScalarBackendForEveryTypeAndWidth) {
  Prng prng(5);
  for (const TypePair& types : kTypePairs) {
    for (const std::uint32_t d_ff : {32U, 64U, 96U, 256U, 704U}) {
      if (d_ff % tensor::block_elements(types.down) != 0) continue;
      const auto expert =
          make_expert({256, d_ff}, types.type, types.down, Activation::silu, Biases::absent, d_ff);
      const auto input = testing::make_rows(9, 256, prng);
      ASSERT_EQ(difference_to_scalar(GetParam(), expert, input), "")
          << tensor::name_of(types.type) << " " << tensor::name_of(types.down) << " d_ff " << d_ff;
    }
  }
}

TEST_P(BackendIsa, HasTheBitsOfTheScalarBackendForEveryActivationWithAndWithoutBiases) {
  Prng prng(6);
  for (const auto activation : {Activation::silu, Activation::silu_clamped, Activation::swigluoai,
                                Activation::gelu_tanh, Activation::relu2, Activation::situ}) {
    for (const WeightType type : {WeightType::bf16, WeightType::q8_0}) {
      const auto input = testing::make_rows(9, 96, prng);
      const auto bare = make_expert({96, 64}, type, type, activation, Biases::absent, 7);
      const auto biased = make_expert({96, 64}, type, type, activation, Biases::present, 7);
      ASSERT_EQ(difference_to_scalar(GetParam(), bare, input), "") << static_cast<int>(activation);
      ASSERT_EQ(difference_to_scalar(GetParam(), biased, input), "")
          << static_cast<int>(activation);
    }
  }
}

TEST_P(BackendIsa, GivesARowTheSameBitsAloneAndInABatchOf67) {
  Prng prng(8);
  for (const TypePair& types : kTypePairs) {
    const auto expert =
        make_expert({256, 256}, types.type, types.down, Activation::silu, Biases::present, 9);
    const auto input = testing::make_rows(67, 256, prng);
    const auto together = run_serially(GetParam(), expert, input);
    for (std::size_t row = 0; row < 67; row += 11) {
      const auto at = [row](const std::vector<float>& rows) {
        const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(row * 256);
        return std::vector<float>(begin, begin + 256);
      };
      ASSERT_EQ(
          testing::first_difference(at(together), run_serially(GetParam(), expert, at(input))), "")
          << tensor::name_of(types.type) << " row " << row;
    }
  }
}

TEST_P(BackendIsa, GivesEveryBatchSizeThePrefixOfALargerOne) {
  Prng prng(10);
  const auto expert = make_expert({64, 96}, WeightType::q8_0, WeightType::q8_0, Activation::silu,
                                  Biases::absent, 11);
  const auto input = testing::make_rows(67, 64, prng);
  const auto whole = run_serially(GetParam(), expert, input);
  for (std::ptrdiff_t rows = 1; rows <= 67; ++rows) {
    const auto some = run_serially(GetParam(), expert, {input.begin(), input.begin() + rows * 64});
    ASSERT_EQ(testing::first_difference({whole.begin(), whole.begin() + rows * 64}, some), "")
        << rows << " rows";
  }
}

TEST_P(BackendIsa, GivesTheSameBitsForAnyNumberOfThreadsAndAnyScratch) {
  Prng prng(12);
  for (const TypePair& types : kTypePairs) {
    const auto expert =
        make_expert({512, 768}, types.type, types.down, Activation::silu, Biases::absent, 13);
    const auto input = testing::make_rows(40, 512, prng);
    const auto expected = run_serially(GetParam(), expert, input);
    for (const std::size_t threads : {2U, 3U, 8U}) {
      CpuBackend backend(kernels_up_to(GetParam()),
                         threads == 3 ? 1 : kScratch);  // 1 byte: waves of 8 rows
      testing::ThreadsExecutor executor(threads);
      ASSERT_EQ(testing::first_difference(expected, run_expert(backend, expert, input, executor)),
                "")
          << threads << " threads, " << tensor::name_of(types.type);
    }
  }
}

TEST_P(BackendIsa, RunsManyExpertsOverRepeatedAndShuffledRowsAsOneByOne) {
  Prng prng(14);
  CpuBackend backend(kernels_up_to(GetParam()), 64 << 10);
  testing::ThreadsExecutor executor(2);
  constexpr std::size_t kRows = 21;
  const auto input = testing::make_rows(kRows, 256, prng);
  std::vector<std::vector<std::uint32_t>> rows;
  std::vector<std::vector<float>> outs;
  std::vector<std::vector<float>> expected;
  std::vector<std::shared_ptr<const compute::ResidentExpert>> residents;
  std::vector<compute::ExpertBatch> batches;
  for (std::size_t e = 0; e < std::size(kTypePairs); ++e) {
    const auto expert = make_expert({256, 256}, kTypePairs[e].type, kTypePairs[e].down,
                                    Activation::silu, Biases::absent, e);
    std::vector<std::uint32_t> picked;
    for (std::size_t i = 0; i < e * 5; ++i)
      picked.push_back(static_cast<std::uint32_t>(prng.below(kRows)));
    const auto whole = run_serially(GetParam(), expert, input);
    std::vector<float> want;
    for (const std::ptrdiff_t row : picked) {
      want.insert(want.end(), whole.begin() + row * 256, whole.begin() + (row + 1) * 256);
    }
    rows.push_back(picked);
    expected.push_back(want);
    outs.emplace_back(want.size());
    residents.push_back(upload(backend, expert));
  }
  for (std::size_t e = 0; e < rows.size(); ++e) {
    batches.push_back({.expert = residents[e].get(), .rows = rows[e], .out = outs[e].data()});
  }
  const compute::ExpertsJob job{.profile = compute::Profile::exact,
                                .input = input.data(),
                                .input_rows = static_cast<std::uint32_t>(kRows),
                                .d_model = 256,
                                .batches = batches};
  ASSERT_TRUE(backend.run_experts(job, executor).has_value());
  for (std::size_t e = 0; e < rows.size(); ++e) {
    EXPECT_EQ(testing::first_difference(expected[e], outs[e]), "") << "expert " << e;
  }
}

TEST_P(BackendIsa, MultipliesByAMatrixAsItsKernelsDo) {
  Prng prng(15);
  for (const WeightType type : testing::kWeightTypes) {
    const auto matrix = testing::make_matrix(type, 130, 512, prng);
    const auto bias = testing::make_normal_rows(1, 130, prng);
    const auto input = testing::make_rows(13, 512, prng);
    std::vector<std::vector<float>> outs;
    for (const Isa isa : {Isa::scalar, GetParam()}) {
      CpuBackend backend(kernels_up_to(isa), kScratch);
      testing::ThreadsExecutor executor(isa == Isa::scalar ? 1 : 3);
      auto resident = backend.upload_matrix(matrix.view, bias, executor);
      ASSERT_TRUE(resident.has_value());
      std::vector<float> out(std::size_t{13} * 130);
      const compute::MatmulJob job{.profile = compute::Profile::exact,
                                   .matrix = resident->get(),
                                   .input = input.data(),
                                   .input_rows = 13,
                                   .out = out.data()};
      ASSERT_TRUE(backend.run_matmul(job, executor).has_value());
      outs.push_back(out);
    }
    EXPECT_EQ(testing::first_difference(outs[0], outs[1]), "") << tensor::name_of(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, BackendIsa, ::testing::ValuesIn(kIsas),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

std::atomic<std::size_t> calls_counted{0};

void counting_q8_0(const TzMatmul* job) {
  calls_counted.fetch_add(1);
  kernels_up_to(Isa::scalar).matmul_of(WeightType::q8_0).run(job);
}

TEST(CpuBackend, RunsTheKernelsOfItsSetAndNoOther) {
  KernelSet set = kernels_up_to(Isa::scalar);
  for (MatmulKernel& kernel : set.matmul) {
    if (kernel.type == WeightType::q8_0) kernel.run = counting_q8_0;
  }
  CpuBackend backend(set, kScratch);
  compute::SerialExecutor serial;
  Prng prng(16);
  const auto expert = make_expert({64, 64}, WeightType::q8_0, WeightType::q8_0, Activation::silu,
                                  Biases::absent, 1);
  calls_counted = 0;
  run_expert(backend, expert, testing::make_rows(1, 64, prng), serial);
  EXPECT_EQ(calls_counted.load(), 3U);  // gate, up and down, one call each
}

TEST(CpuBackend, ForcedIsaIsTheOneThatRuns) {
  for (const Isa isa : kIsas) {
    if (!is_available(isa)) continue;
    const auto backend = make_cpu_backend({.isa = isa});
    ASSERT_TRUE(backend.has_value());
    const auto& cpu = dynamic_cast<const CpuBackend&>(**backend);
    EXPECT_EQ(cpu.kernels().isa, isa);
    // Few rows of the ISA with tiles run the kernels of the one below.
    const Isa of_rows = std::min(isa, Isa::avx512vnni);
    const std::string suffix = "__" + std::string(name_of(of_rows));
    EXPECT_TRUE(cpu.kernels().matmul_of(WeightType::q8_0).name.ends_with(suffix));
    const TileKernel* tiles = cpu.kernels().tiles_of(WeightType::q8_0, compute::Profile::exact);
    EXPECT_EQ(tiles != nullptr && tiles->name.ends_with("__amx"), isa == Isa::amx);
    EXPECT_LE(cpu.kernels().quantize.isa, isa);
    EXPECT_LE(cpu.kernels().activation.isa, isa);
    for (const MatmulKernel& kernel : cpu.kernels().matmul) EXPECT_LE(kernel.isa, isa);
  }
}

TEST(CpuBackend, IsNamedAfterItsIsa) {
  const auto named = [](Isa isa) {
    return std::string(CpuBackend(kernels_up_to(isa), kScratch).name());
  };
  EXPECT_EQ(named(Isa::scalar), "cpu");
  EXPECT_EQ(named(Isa::avx2), "cpu-avx2");
  EXPECT_EQ(named(Isa::avx512), "cpu-avx512");
  EXPECT_EQ(named(Isa::avx512vnni), "cpu-avx512-vnni");
  EXPECT_EQ(named(Isa::amx), "cpu-amx");
}

TEST(CpuBackend, UnforcedTakesTheBestThatTheCpuHas) {
  const auto backend = make_cpu_backend({});
  ASSERT_TRUE(backend.has_value());
  EXPECT_EQ(dynamic_cast<const CpuBackend&>(**backend).kernels().isa, best_isa());
}

TEST(CpuBackend, ForcedIsaThatIsNotBuiltOrNotThereIsAnError) {
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512vnni, Isa::amx}) {
    if (is_available(isa)) continue;
    const auto backend = make_cpu_backend({.isa = isa});
    ASSERT_FALSE(backend.has_value());
    EXPECT_EQ(backend.error().code, ErrorCode::infrastructure);
    EXPECT_NE(backend.error().message().find(name_of(isa)), std::string::npos);
  }
}

TEST(CpuBackend, IsaNamesAreReadAsTheyAreWritten) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512vnni, Isa::amx}) {
    EXPECT_EQ(isa_from_name(name_of(isa)), isa);
  }
  EXPECT_FALSE(isa_from_name("AVX2").has_value());
  EXPECT_FALSE(isa_from_name("").has_value());
}

TEST(CpuBackend, RefusesAnExpertWhosePartsDoNotFit) {
  CpuBackend backend(kernels_up_to(Isa::scalar), kScratch);
  compute::SerialExecutor serial;
  const auto good = make_expert({64, 96}, WeightType::q8_0, WeightType::q8_0, Activation::silu,
                                Biases::present, 2);
  const auto refused = [&](const compute::ExpertView& view) {
    const bool unsupported = !backend.supports(view);
    return unsupported && !backend.upload_expert(view, serial).has_value();
  };
  EXPECT_FALSE(refused(good.view()));
  auto no_gate = good.view();
  no_gate.gate.reset();
  EXPECT_TRUE(refused(no_gate));
  auto needless_gate = good.view();
  needless_gate.spec.activation = Activation::relu2;
  EXPECT_TRUE(refused(needless_gate));
  auto short_bytes = good.view();
  short_bytes.up.bytes = short_bytes.up.bytes.first(short_bytes.up.bytes.size() - 1);
  EXPECT_TRUE(refused(short_bytes));
  auto swapped = good.view();
  swapped.up = swapped.down;
  EXPECT_TRUE(refused(swapped));
  auto ragged = good.view();
  ragged.down.type = WeightType::q6_k;  // 96 columns are not whole blocks of 256
  EXPECT_TRUE(refused(ragged));
  auto short_bias = good.view();
  short_bias.down_bias = short_bias.down_bias.first(10);
  EXPECT_TRUE(refused(short_bias));
  auto empty = good.view();
  empty.down.rows = 0;
  EXPECT_TRUE(refused(empty));
}

TEST(CpuBackend, HoldsNoMoreBytesThanTheLayoutPromises) {
  CpuBackend backend(kernels_up_to(Isa::scalar), kScratch);
  for (const TypePair& types : kTypePairs) {
    const auto expert =
        make_expert({512, 256}, types.type, types.down, Activation::silu, Biases::absent, 3);
    const std::size_t stored =
        expert.gate->bytes.size() + expert.up.bytes.size() + expert.down.bytes.size();
    const double growth =
        static_cast<double>(upload(backend, expert)->bytes()) / static_cast<double>(stored);
    EXPECT_LE(growth, 4.625 / 4.5 + 1e-9) << tensor::name_of(types.type);
    EXPECT_GE(growth, 1.0 - 1e-9);
  }
}

TEST(CpuBackend, RunsAnEmptyJob) {
  CpuBackend backend(kernels_up_to(Isa::scalar), kScratch);
  compute::SerialExecutor serial;
  EXPECT_TRUE(backend.run_experts({}, serial).has_value());
}

// Profile fast rounds activations to bf16: at most 2^-8 each, 1.6e-3 in the mean over a binade.
// Three such roundings reach the output (the input through gate and through up, and the row between
// the halves); independent ones add up to about 3e-3 of the row. The bound is twice that.
TEST(CpuBackend, FastStaysWithinTheRoundingOfBf16OfDouble) {
  Prng prng(19);
  for (const std::uint32_t d_ff : {256U, 33U}) {
    const auto expert = make_expert({512, d_ff}, WeightType::bf16, WeightType::bf16,
                                    Activation::silu, Biases::absent, 4);
    const auto input = testing::make_normal_rows(11, 512, prng);
    const auto expected =
        testing::reference_ffn(expert.view(), input, testing::ActivationRounding::none);
    CpuBackend backend(kernels_up_to(best_isa()), kScratch);
    testing::ThreadsExecutor executor(2);
    const auto found = run_expert(backend, expert, input, executor, compute::Profile::fast);
    EXPECT_LE(relative_l2(found, expected), 6e-3) << d_ff;
    if (backend.kernels().fast_bf16) {
      EXPECT_NE(testing::first_difference(found, run_serially(best_isa(), expert, input)), "")
          << "the fast kernel did not run";
    }
  }
}

TEST(CpuBackend, FastEqualsExactForEveryTypeWithoutAFastKernel) {  // Q8_0: 8 rows are no tiles
  Prng prng(20);
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::q8_0}) {
    const auto expert = make_expert({64, 96}, type, type, Activation::silu, Biases::present, 5);
    const auto input = testing::make_rows(8, 64, prng);
    CpuBackend backend(kernels_up_to(best_isa()), kScratch);
    compute::SerialExecutor serial;
    EXPECT_EQ(testing::first_difference(
                  run_serially(best_isa(), expert, input),
                  run_expert(backend, expert, input, serial, compute::Profile::fast)),
              "");
  }
}

/// FNV-1a over the bits of the values.
std::uint64_t fingerprint(const std::vector<float>& values) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8)
      hash = (hash ^ ((bits >> shift) & 0xFFU)) * 0x100000001B3ULL;
  }
  return hash;
}

// The fingerprints were recorded once. They hold on every machine, compiler and ISA, or a mesh of
// unequal nodes does not agree with itself; whoever changes them on purpose changes profile `exact`
// for everyone.
TEST(CpuBackend, HasTheRecordedBitsOfProfileExact) {
  constexpr std::uint64_t kRecorded[] = {6293263964969660996ULL,  16608779577589273322ULL,
                                         13491211468217061523ULL, 10779980226550369206ULL,
                                         10493057933762479022ULL, 9764699884983624689ULL,
                                         6643811330091159307ULL,  1609067079904246566ULL};
  Prng prng(18);
  const auto input = testing::make_normal_rows(5, 256, prng);
  for (std::size_t i = 0; i < std::size(kTypePairs); ++i) {
    const TypePair& types = kTypePairs[i];
    const auto activation = static_cast<Activation>(i % 6);
    const auto expert =
        make_expert({256, 256}, types.type, types.down, activation, Biases::present, i);
    for (const Isa isa : kIsas) {
      if (!is_available(isa)) continue;
      EXPECT_EQ(fingerprint(run_serially(isa, expert, input)), kRecorded[i])
          << tensor::name_of(types.type) << " " << tensor::name_of(types.down) << " "
          << name_of(isa);
    }
  }
}

// Exact against the double-accumulating reference with the same rounding of activations. Beyond the
// accumulator's own error (matmul_test.cpp) an intermediate value may fall on the other side of a
// Q8_0 rounding step and then differs by one step, amax/127. Few do, so the bound is on the row's
// relative L2 error: for quantised down projections one value in a hundred flipping by a whole step
// is 1/10 of the rounding noise of Q8_0 itself, 0.5 %, hence 5e-4; for dense ones f32 rounding over
// K = 512 stays below 512 * 2^-24 = 3e-5 and in practice far below.
TEST(CpuBackend, StaysNearTheDoubleReferenceForEveryType) {
  Prng prng(17);
  for (const TypePair& types : kTypePairs) {
    const auto expert =
        make_expert({512, 256}, types.type, types.down, Activation::silu, Biases::present, 4);
    const auto input = testing::make_normal_rows(5, 512, prng);
    const auto found = run_serially(Isa::scalar, expert, input);
    const auto expected =
        testing::reference_ffn(expert.view(), input, testing::ActivationRounding::q8_0);
    EXPECT_LE(relative_l2(found, expected), tensor::is_quantized(types.down) ? 5e-4 : 3e-5)
        << tensor::name_of(types.type) << " " << tensor::name_of(types.down);
  }
}

}  // namespace
}  // namespace tenzro::kernels
