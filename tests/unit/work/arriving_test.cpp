// An expert whose blob is still coming is packed as one that is there, and given away only where
// its hash is right.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tenzro/crypto/blake3.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/work/bodies.hpp"

#include "support/random_expert.hpp"

namespace tenzro::work {
namespace {

constexpr std::uint32_t kWidth = 64;
constexpr std::uint32_t kFfn = 96;

/// Breaks off behind `readable` bytes.
class Coming final : public ArrivingBlob {
 public:
  explicit Coming(BufferRef bytes) : Coming(bytes, bytes.size()) {}

  Coming(BufferRef bytes, std::size_t readable) : bytes_(std::move(bytes)), readable_(readable) {}

  [[nodiscard]] std::uint64_t size_bytes() const override { return bytes_.size(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset + to.size() > readable_) return fail(ErrorCode::io, "blob", "cannot be read");
    const auto from = bytes_.bytes().subspan(static_cast<std::size_t>(offset), to.size());
    std::copy(from.begin(), from.end(), to.begin());
    return {};
  }

  [[nodiscard]] Result<BlobHash> hash() const override {
    if (readable_ < bytes_.size()) return fail(ErrorCode::io, "blob", "cannot be read");
    return crypto::blake3(bytes_.bytes());
  }

 private:
  BufferRef bytes_;
  std::size_t readable_;
};

class ArrivingExperts : public ::testing::Test {
 protected:
  Result<AdmittedExpert> admit(const AdmitExpert& job) {
    return admit_expert(job, {*backend_, executor_, key_});
  }

  std::vector<float> run(const AdmittedExpert& expert) {
    Prng prng(5);
    RunExperts job{.input = testing::random_rows(prng, 3, kWidth), .width = kWidth};
    job.batches.push_back({.expert = 0, .resident = expert.resident, .rows = {0, 1, 2}});
    const auto ran = run_experts(job, {*backend_, executor_, key_});
    const auto values = ran.value().outputs.at(0).values.as<float>();
    return {values.begin(), values.end()};
  }

  std::unique_ptr<compute::Backend> backend_ = kernels::make_cpu_backend({}).value();
  compute::SerialExecutor executor_;
  crypto::KeyPair key_ = crypto::KeyPair::from_seed({1});
};

TEST_F(ArrivingExperts, AreTheSameBitsAsThoseWhoseBytesAreThere) {
  for (const auto type :
       {tensor::WeightType::f32, tensor::WeightType::bf16, tensor::WeightType::q8_0}) {
    const BufferRef blob = testing::random_expert(3, kWidth, kFfn, type);
    const auto whole = admit({.blob = blob});
    ASSERT_TRUE(whole);
    for (const bool are_values_known : {false, true}) {
      const auto came = admit({.blob = {},
                               .expected_hash = crypto::blake3(blob.bytes()),
                               .arriving = std::make_shared<Coming>(blob),
                               .are_values_known = are_values_known});
      ASSERT_TRUE(came) << came.error().message();
      EXPECT_EQ(came->hash, whole->hash);
      EXPECT_EQ(came->facts.resident_bytes, whole->facts.resident_bytes);
      EXPECT_EQ(came->facts.up_type, type);
      EXPECT_EQ(run(*came), run(*whole));
    }
  }
}

TEST_F(ArrivingExperts, OfOtherBytesAreAMismatchWhateverElseIsWrongWithThem) {
  const BufferRef blob = testing::random_expert(3, kWidth, kFfn, tensor::WeightType::f32);
  const BlobHash hash = crypto::blake3(blob.bytes());
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, blob.size() - 1}) {
    BufferRef damaged = BufferRef::copy_of(blob.bytes());
    damaged.mutable_bytes()[at] ^= std::byte{0x7F};
    const auto refused =
        admit({.blob = {}, .expected_hash = hash, .arriving = std::make_shared<Coming>(damaged)});
    ASSERT_FALSE(refused) << at;
    EXPECT_EQ(refused.error().code, ErrorCode::io);
    EXPECT_NE(refused.error().message().find("hash mismatch"), std::string::npos) << at;
  }
}

TEST_F(ArrivingExperts, WithAValueThatIsNotFiniteAreRefusedAsThoseWhoseBytesAreThere) {
  BufferRef blob = testing::random_expert(3, kWidth, kFfn, tensor::WeightType::f32);
  const float bad = std::numeric_limits<float>::infinity();
  const auto from = std::as_bytes(std::span(&bad, 1));
  // In the last row of whichever matrix is last.
  std::copy(from.begin(), from.end(), blob.mutable_bytes().end() - 2 * sizeof(float));
  const auto whole = admit({.blob = blob});
  ASSERT_FALSE(whole);
  for (const std::uint64_t held_bytes_max : {std::uint64_t{0}, std::uint64_t{1} << 30U}) {
    const auto came = admit({.blob = {},
                             .expected_hash = crypto::blake3(blob.bytes()),
                             .arriving = std::make_shared<Coming>(blob),
                             .held_bytes_max = held_bytes_max});
    ASSERT_FALSE(came) << held_bytes_max;
    EXPECT_EQ(came.error().message(), whole.error().message());
    EXPECT_EQ(came.error().code, whole.error().code);
  }
}

TEST_F(ArrivingExperts, ThatBreakOffAreTheErrorOfTheDisk) {
  const BufferRef blob = testing::random_expert(3, kWidth, kFfn, tensor::WeightType::q8_0);
  for (const std::size_t readable : {std::size_t{4}, blob.size() / 2, blob.size() - 1}) {
    const auto refused = admit({.blob = {},
                                .expected_hash = crypto::blake3(blob.bytes()),
                                .arriving = std::make_shared<Coming>(blob, readable)});
    ASSERT_FALSE(refused) << readable;
    EXPECT_EQ(refused.error().code, ErrorCode::io);
    EXPECT_NE(refused.error().message().find("cannot be read"), std::string::npos);
  }
}

TEST_F(ArrivingExperts, ThatMayTakeNothingAreCheckedAndHaveFactsAndNoWeights) {
  const BufferRef blob = testing::random_expert(3, kWidth, kFfn, tensor::WeightType::q8_0);
  const auto checked = admit({.blob = blob, .held_bytes_max = 0});
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->resident, nullptr);
  EXPECT_EQ(checked->facts.d_ff, kFfn);
  EXPECT_GT(checked->facts.resident_bytes, 0U);
  EXPECT_EQ(checked->hash, crypto::blake3(blob.bytes()));
}

TEST_F(ArrivingExperts, ThatNeedMoreThanTheyMayTakeAreCheckedAllTheSame) {
  const BufferRef blob = testing::random_expert(3, kWidth, kFfn, tensor::WeightType::q8_0);
  const BlobHash hash = crypto::blake3(blob.bytes());
  const auto whole = admit({.blob = blob});
  ASSERT_TRUE(whole);
  const auto checked = admit({.blob = {},
                              .expected_hash = hash,
                              .arriving = std::make_shared<Coming>(blob),
                              .held_bytes_max = whole->facts.resident_bytes - 1});
  ASSERT_TRUE(checked) << checked.error().message();
  EXPECT_EQ(checked->resident, nullptr);
  EXPECT_EQ(checked->facts.resident_bytes, whole->facts.resident_bytes);
  EXPECT_EQ(checked->hash, hash);
}

}  // namespace
}  // namespace tenzro::work
