// Running experts: what is told of one that runs from disk and cannot be read.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/kernels/cpu.hpp"
#include "tenzro/work/bodies.hpp"

#include "support/random_expert.hpp"

namespace tenzro::work {
namespace {

constexpr std::uint32_t kWidth = 256;

/// A blob that cannot be read any more.
class Source final : public compute::WeightSource {
 public:
  explicit Source(BufferRef bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] std::uint64_t size_bytes() const override { return bytes_.size(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (error) return fail(*error, "blob 07", "cannot be read");
    const auto from = bytes_.bytes().subspan(offset, to.size());
    std::copy(from.begin(), from.end(), to.begin());
    return {};
  }

  std::optional<ErrorCode> error;

 private:
  BufferRef bytes_;
};

TEST(RunExperts, DiskThatFailsIsToldAsTheDiskTiersErrorAndAShortageAsItself) {
  auto backend = kernels::make_cpu_backend({});
  ASSERT_TRUE(backend);
  compute::SerialExecutor executor;
  const crypto::KeyPair key = crypto::KeyPair::from_seed(crypto::Seed{2});
  const JobContext context{**backend, executor, key};
  const auto source =
      std::make_shared<Source>(testing::random_expert(7, kWidth, 1024, tensor::WeightType::q8_0));
  const auto admitted = admit_expert(
      {.blob = {}, .source = source, .memory_bytes_max = source->size_bytes() / 2}, context);
  ASSERT_TRUE(admitted) << admitted.error().message();
  ASSERT_TRUE(admitted->resident->is_streamed());
  Prng prng(3);
  RunExperts job{.input = testing::random_rows(prng, 1, kWidth), .width = kWidth};
  job.batches.push_back({0, admitted->resident, {0}});
  ASSERT_TRUE(run_experts(job, context));

  source->error = ErrorCode::busy;
  const auto busy = run_experts(job, context);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, ErrorCode::busy);

  source->error = ErrorCode::io;
  const auto failed = run_experts(job, context);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::runtime);
  EXPECT_EQ(failed.error().message(), "expert disk tier I/O error: blob 07: cannot be read");
}

class Admission : public ::testing::Test {
 protected:
  Result<AdmittedExpert> admit(const AdmitExpert& job) {
    return admit_expert(job, {*backend_, executor_, key_});
  }

  /// Sixteen times as large when it is packed.
  const BufferRef narrow_ = testing::random_expert(5, 2048, 1, tensor::WeightType::f32);
  std::unique_ptr<compute::Backend> backend_ = kernels::make_cpu_backend({}).value();
  compute::SerialExecutor executor_;
  crypto::KeyPair key_ = crypto::KeyPair::from_seed(crypto::Seed{2});
};

TEST_F(Admission, NothingIsMadeOfAnExpertThatNeedsMoreThanItMayHaveAndTheNeedIsTold) {
  const auto free = admit({.blob = narrow_});
  ASSERT_TRUE(free);
  const std::uint64_t need = free->facts.resident_bytes;
  EXPECT_EQ(need, free->resident->bytes());
  EXPECT_GT(need, 10 * narrow_.size());
  const auto bounded = admit({.blob = narrow_, .held_bytes_max = need - 1});
  ASSERT_TRUE(bounded);
  EXPECT_EQ(bounded->resident, nullptr);
  EXPECT_EQ(bounded->facts.resident_bytes, need);
  EXPECT_EQ(bounded->hash, free->hash);
  EXPECT_GT(bounded->stream_bytes_min, 0U);
  const auto exact = admit({.blob = narrow_, .held_bytes_max = need});
  ASSERT_TRUE(exact);
  EXPECT_NE(exact->resident, nullptr);
}

TEST_F(Admission, BySlicesItTakesWhatItSaidAtLeastAndIsRefusedBelowWithTheNumbers) {
  const auto source = std::make_shared<Source>(narrow_);
  const std::uint64_t least = admit({.blob = narrow_})->stream_bytes_min;
  const auto fits = admit({.blob = {}, .source = source, .memory_bytes_max = least});
  ASSERT_TRUE(fits) << fits.error().message();
  EXPECT_LE(fits->resident->bytes(), least);
  EXPECT_EQ(fits->stream_bytes_min, least);
  const auto refused = admit({.blob = {}, .source = source, .memory_bytes_max = least - 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  for (const std::uint64_t number : {least, least - 1})
    EXPECT_NE(refused.error().message().find(std::to_string(number)), std::string::npos)
        << refused.error().message();
}

}  // namespace
}  // namespace tenzro::work
