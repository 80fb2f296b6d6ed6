// Experts that are read by slices, or packed as they are read: the bits of those in memory, within
// the memory they were given.
#include <algorithm>
#include <atomic>
#include <cstring>

#include <gtest/gtest.h>

#include "kernels/cases.hpp"
#include "kernels/cpu/backend/cpu_backend.hpp"
#include "kernels/threads.hpp"

namespace tenzro::kernels {
namespace {

using compute::Activation;
using tensor::WeightType;
using testing::Biases;
using testing::make_expert;
using testing::OwnedExpert;

constexpr std::size_t kScratch = std::size_t{32} << 20U;

/// The matrices one behind the other, as a blob has them; fails from read number `fails_at` on.
class Source final : public compute::WeightSource {
 public:
  explicit Source(const compute::ExpertView& view) {
    append(view.down);
    if (view.gate) append(*view.gate);
    append(view.up);
  }

  [[nodiscard]] std::uint64_t size_bytes() const override { return bytes_.size(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (reads_++ >= fails_at) return fail(error, "blob", "cannot be read");
    largest_ = std::max<std::size_t>(largest_, to.size());
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset)
      return fail(ErrorCode::io, "blob", "ends early");
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return {};
  }

  [[nodiscard]] std::size_t largest_read() const { return largest_; }

  std::size_t fails_at = SIZE_MAX;
  ErrorCode error = ErrorCode::io;

 private:
  void append(const compute::MatrixView& matrix) {
    bytes_.insert(bytes_.end(), matrix.bytes.begin(), matrix.bytes.end());
  }

  std::vector<std::byte> bytes_;
  mutable std::atomic<std::size_t> reads_{0};
  mutable std::atomic<std::size_t> largest_{0};
};

compute::ExpertView streamed(const OwnedExpert& expert, std::shared_ptr<const Source> source,
                             std::uint64_t memory_bytes_max) {
  compute::ExpertView view = expert.view();
  const std::uint64_t gate = view.gate ? view.gate->bytes.size() : 0;
  const std::uint64_t down = view.down.bytes.size();
  if (view.gate) view.gate->bytes = {};
  view.up.bytes = {};
  view.down.bytes = {};
  view.stream = compute::WeightStream{.source = std::move(source),
                                      .gate_begin = down,
                                      .up_begin = down + gate,
                                      .down_begin = 0,
                                      .memory_bytes_max = memory_bytes_max};
  return view;
}

std::vector<std::uint32_t> every_row(std::size_t count) {
  std::vector<std::uint32_t> rows(count);
  for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<std::uint32_t>(i);
  return rows;
}

Status run_into(std::vector<float>& out, compute::Backend& backend,
                const compute::ResidentExpert& resident, const std::vector<float>& input,
                std::uint32_t d_model, compute::Executor& executor,
                compute::Profile profile = compute::Profile::exact) {
  const auto rows = every_row(input.size() / d_model);
  out.assign(input.size(), 0.0F);
  const compute::ExpertBatch batch{.expert = &resident, .rows = rows, .out = out.data()};
  return backend.run_experts({.profile = profile,
                              .input = input.data(),
                              .input_rows = static_cast<std::uint32_t>(rows.size()),
                              .d_model = d_model,
                              .batches = {&batch, 1}},
                             executor);
}

/// The least memory that the expert can be streamed with.
std::uint64_t least_memory(compute::Backend& backend, const OwnedExpert& expert,
                           compute::Executor& executor) {
  const auto source = std::make_shared<Source>(expert.view());
  std::uint64_t low = 0;
  std::uint64_t high = 1U << 20U;
  while (high - low > 1) {
    const std::uint64_t middle = (low + high) / 2;
    const bool fits = backend.upload_expert(streamed(expert, source, middle), executor).has_value();
    (fits ? high : low) = middle;
  }
  return high;
}

struct TypePair {
  WeightType type;
  WeightType down;
};

constexpr TypePair kTypePairs[] = {
    {WeightType::f32, WeightType::f32},   {WeightType::f16, WeightType::f16},
    {WeightType::bf16, WeightType::bf16}, {WeightType::q8_0, WeightType::q8_0},
    {WeightType::q4_k, WeightType::q4_k}, {WeightType::q4_k, WeightType::q6_k},
    {WeightType::q6_k, WeightType::bf16}, {WeightType::bf16, WeightType::q8_0}};

class StreamedIsa : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!is_available(GetParam())) GTEST_SKIP() << name_of(GetParam()) << " is not available here";
  }
};

TEST_P(StreamedIsa, HasTheBitsOfTheExpertInMemoryForEveryTypeShapeMemoryAndNumberOfThreads) {
  Prng prng(21);
  CpuBackend backend(kernels_up_to(GetParam()), kScratch);
  CpuBackend narrow(kernels_up_to(GetParam()), 1);  // eight rows at a time
  for (const TypePair& types : kTypePairs) {
    for (const std::uint32_t d_ff : {32U, 96U, 256U, 512U}) {
      if (d_ff % tensor::block_elements(types.down) != 0) continue;
      const std::uint32_t d_model = 256;
      const auto expert = make_expert({d_model, d_ff}, types.type, types.down, Activation::silu,
                                      d_ff == 96 ? Biases::present : Biases::absent, d_ff);
      const auto input = testing::make_rows(9, d_model, prng);
      compute::SerialExecutor serial;
      const auto whole = backend.upload_expert(expert.view(), serial).value();
      const std::uint64_t least = least_memory(backend, expert, serial);
      for (const auto profile : {compute::Profile::exact, compute::Profile::fast}) {
        std::vector<float> expected;
        ASSERT_TRUE(run_into(expected, backend, *whole, input, d_model, serial, profile));
        for (const std::size_t threads : {1U, 3U}) {
          testing::ThreadsExecutor executor(threads);
          for (const std::uint64_t memory : {least, 3 * least, std::uint64_t{1} << 22U}) {
            const auto source = std::make_shared<Source>(expert.view());
            const auto resident =
                backend.upload_expert(streamed(expert, source, memory), executor).value();
            ASSERT_LE(resident->bytes(), memory);
            ASSERT_TRUE(memory != least || d_ff < 512 || resident->is_streamed());
            compute::Backend& runner = threads == 1 ? narrow : backend;
            std::vector<float> out;
            ASSERT_TRUE(run_into(out, runner, *resident, input, d_model, executor, profile));
            ASSERT_EQ(testing::first_difference(expected, out), "")
                << tensor::name_of(types.type) << " " << tensor::name_of(types.down) << " d_ff "
                << d_ff << " memory " << memory << " threads " << threads << " profile "
                << static_cast<int>(profile);
          }
        }
      }
    }
  }
}

TEST_P(StreamedIsa, HasTheBitsOfTheExpertInMemoryForEveryActivation) {
  Prng prng(22);
  CpuBackend backend(kernels_up_to(GetParam()), kScratch);
  compute::SerialExecutor serial;
  for (const auto activation : {Activation::silu, Activation::silu_clamped, Activation::swigluoai,
                                Activation::gelu_tanh, Activation::relu2, Activation::situ}) {
    for (const Biases biases : {Biases::absent, Biases::present}) {
      const auto expert =
          make_expert({96, 160}, WeightType::q8_0, WeightType::q8_0, activation, biases, 7);
      const auto input = testing::make_rows(9, 96, prng);
      const auto whole = backend.upload_expert(expert.view(), serial).value();
      const auto source = std::make_shared<Source>(expert.view());
      const std::uint64_t least = least_memory(backend, expert, serial);
      const auto resident = backend.upload_expert(streamed(expert, source, least), serial).value();
      EXPECT_TRUE(resident->is_streamed());
      std::vector<float> expected;
      std::vector<float> out;
      ASSERT_TRUE(run_into(expected, backend, *whole, input, 96, serial));
      ASSERT_TRUE(run_into(out, backend, *resident, input, 96, serial));
      EXPECT_EQ(testing::first_difference(expected, out), "") << static_cast<int>(activation);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, StreamedIsa,
                         ::testing::Values(Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512vnni,
                                           Isa::amx),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

class Streamed : public ::testing::Test {
 protected:
  OwnedExpert expert_ = make_expert({256, 512}, WeightType::q8_0, WeightType::q8_0,
                                    Activation::silu, Biases::absent, 3);
  std::shared_ptr<Source> source_ = std::make_shared<Source>(expert_.view());
  std::unique_ptr<compute::Backend> backend_ = make_cpu_backend({}).value();
  compute::SerialExecutor serial_;
};

TEST_F(Streamed, IsPackedAsItIsReadWhereItsMemoryTakesItAndThenNeedsItsSourceNoMore) {
  const std::uint64_t whole = backend_->upload_expert(expert_.view(), serial_).value()->bytes();
  const std::uint64_t room = whole + (std::uint64_t{1} << 20U) + 1024;
  const auto held = backend_->upload_expert(streamed(expert_, source_, room), serial_).value();
  EXPECT_FALSE(held->is_streamed());
  EXPECT_EQ(held->bytes(), whole);
  EXPECT_LE(source_->largest_read(), room - whole);
  source_->fails_at = 0;
  std::vector<float> out;
  Prng prng(1);
  const auto input = testing::make_rows(2, 256, prng);
  EXPECT_TRUE(run_into(out, *backend_, *held, input, 256, serial_));
  const auto read = backend_->upload_expert(streamed(expert_, source_, whole), serial_).value();
  EXPECT_TRUE(read->is_streamed());
}

TEST_F(Streamed, MemoryIsKnownBeforeItIsTakenAlsoOfExpertsNarrowerThanAPanel) {
  struct Shape {
    std::uint32_t d_model;
    std::uint32_t d_ff;
    WeightType type;
  };

  Prng prng(8);
  for (const Shape& shape : {Shape{256, 512, WeightType::q4_k}, Shape{96, 160, WeightType::q8_0},
                             Shape{2048, 1, WeightType::f32}, Shape{1, 2048, WeightType::f32},
                             Shape{7, 901, WeightType::bf16}, Shape{33, 5, WeightType::f16}}) {
    const std::string where = std::to_string(shape.d_model) + " x " + std::to_string(shape.d_ff);
    const auto expert = make_expert({shape.d_model, shape.d_ff}, shape.type, shape.type,
                                    Activation::silu, Biases::present, 5);
    const auto memory = backend_->memory_of(expert.view());
    ASSERT_TRUE(memory) << where;
    const auto whole = backend_->upload_expert(expert.view(), serial_).value();
    EXPECT_EQ(memory->held_bytes, whole->bytes()) << where;
    const auto source = std::make_shared<Source>(expert.view());
    EXPECT_EQ(memory->stream_bytes_min, least_memory(*backend_, expert, serial_)) << where;
    const auto seen = backend_->memory_of(streamed(expert, source, 0));
    ASSERT_TRUE(seen) << where;
    EXPECT_EQ(seen->stream_bytes_min, memory->stream_bytes_min) << where;
    const auto input = testing::make_rows(3, shape.d_model, prng);
    std::vector<float> expected;
    ASSERT_TRUE(run_into(expected, *backend_, *whole, input, shape.d_model, serial_));
    for (const std::uint64_t room : {memory->stream_bytes_min, std::uint64_t{1} << 22U}) {
      const auto read = backend_->upload_expert(streamed(expert, source, room), serial_).value();
      EXPECT_LE(read->bytes(), room) << where;
      std::vector<float> out;
      ASSERT_TRUE(run_into(out, *backend_, *read, input, shape.d_model, serial_));
      EXPECT_EQ(testing::first_difference(expected, out), "") << where << " in " << room;
    }
  }
}

TEST_F(Streamed, ThatDoesNotFitEvenBySlicesIsRefusedWithItsNumbers) {
  const auto refused = backend_->upload_expert(streamed(expert_, source_, 1000), serial_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  EXPECT_NE(refused.error().message().find("may have 1000"), std::string::npos)
      << refused.error().message();
}

TEST_F(Streamed, ReadThatFailsFailsTheRunAndIsRememberedUnlessItMayPass) {
  const std::uint64_t memory = 200'000;
  const auto resident =
      backend_->upload_expert(streamed(expert_, source_, memory), serial_).value();
  ASSERT_TRUE(resident->is_streamed());
  Prng prng(1);
  const auto input = testing::make_rows(2, 256, prng);
  std::vector<float> out;
  source_->fails_at = 3;
  source_->error = ErrorCode::busy;
  Status ran = run_into(out, *backend_, *resident, input, 256, serial_);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::busy);
  EXPECT_TRUE(resident->is_readable());
  source_->error = ErrorCode::io;
  ran = run_into(out, *backend_, *resident, input, 256, serial_);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::io);
  EXPECT_FALSE(resident->is_readable());
}

TEST_F(Streamed, MatrixThatIsNotInsideItsSourceIsRefused) {
  compute::ExpertView view = streamed(expert_, source_, 1U << 20U);
  view.stream->up_begin = source_->size_bytes() - 100;
  const auto refused = backend_->upload_expert(view, serial_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("up_proj.weight"), std::string::npos);
}

TEST_F(Streamed, RunsBesideExpertsInMemoryInOneJob) {
  const auto held = backend_->upload_expert(expert_.view(), serial_).value();
  const auto read = backend_->upload_expert(streamed(expert_, source_, 200'000), serial_).value();
  Prng prng(4);
  const auto input = testing::make_rows(5, 256, prng);
  const auto rows = every_row(5);
  const std::vector<std::uint32_t> repeated{4, 0, 4};
  std::vector<float> first(input.size());
  std::vector<float> second(3 * 256UL);
  const compute::ExpertBatch batches[] = {
      {.expert = held.get(), .rows = rows, .out = first.data()},
      {.expert = read.get(), .rows = repeated, .out = second.data()}};
  ASSERT_TRUE(backend_->run_experts(
      {.input = input.data(), .input_rows = 5, .d_model = 256, .batches = batches}, serial_));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::memcmp(first.data() + repeated[i] * 256UL, second.data() + i * 256, 256 * 4), 0)
        << i;
  }
}

}  // namespace
}  // namespace tenzro::kernels
