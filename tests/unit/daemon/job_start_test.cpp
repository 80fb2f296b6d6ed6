// Which threads a job runs on: what waits for the disk keeps none of the compute threads.
#include "job_start.hpp"

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tenzro/kernels/cpu.hpp"

#include "support/temporary_directory.hpp"

namespace tenzro::daemon {
namespace {

/// Bytes that cannot be read; tells the thread that wanted them.
class Unreadable final : public work::ArrivingBlob {
 public:
  [[nodiscard]] std::uint64_t size_bytes() const override { return 1U << 20U; }

  [[nodiscard]] Status read(std::uint64_t /*offset*/, std::span<std::byte> /*to*/) const override {
    reader = std::this_thread::get_id();
    return fail(ErrorCode::io, "blob", "cannot be read");
  }

  [[nodiscard]] Result<BlobHash> hash() const override {
    return fail(ErrorCode::io, "blob", "cannot be read");
  }

  mutable std::thread::id reader;
};

class JobStart : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = store::DataDir::open(temporary_ / "data", files_);
    ASSERT_TRUE(dir);
    dir_.emplace(std::move(*dir));
    const store::Options options{.blob_dir = {}, .threads = 1, .queue_max = 1};
    auto opened = store::Store::open(*dir_, options, [](JobId, const work::StoreResult&) {});
    ASSERT_TRUE(opened);
    store_ = std::move(opened->store);
  }

  work::JobResult run(work::Job job, bool is_stopped = false) {
    const auto result = std::make_shared<std::promise<work::JobResult>>();
    start_job({.loop = loop_, .pool = pool_, .store = *store_, .jobs = {*backend_, pool_, key_}},
              std::move(job), std::make_shared<std::atomic<bool>>(is_stopped),
              [result](work::JobResult came) { result->set_value(std::move(came)); });
    return result->get_future().get();
  }

  std::thread::id worker() {
    const auto id = std::make_shared<std::promise<std::thread::id>>();
    EXPECT_TRUE(
        pool_.submit(exec::Priority::compute, [id] { id->set_value(std::this_thread::get_id()); }));
    return id->get_future().get();
  }

  testing::TemporaryDirectory temporary_;
  store::FileSystem files_;
  std::optional<store::DataDir> dir_;
  std::unique_ptr<compute::Backend> backend_ = kernels::make_cpu_backend({}).value();
  crypto::KeyPair key_ = crypto::KeyPair::from_seed({1});
  exec::Loop loop_;
  exec::Pool pool_{{.threads = 1}};
  std::latch entered_{1};
  std::latch leave_{1};
  std::unique_ptr<store::Store> store_;
  std::shared_ptr<Unreadable> blob_ = std::make_shared<Unreadable>();
};

TEST_F(JobStart, AnExpertThatArrivesIsPackedByAThreadOfTheStore) {
  const auto result = run(work::AdmitExpert{.blob = {}, .expected_hash = {}, .arriving = blob_});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_NE(blob_->reader, std::thread::id());
  EXPECT_NE(blob_->reader, worker());
}

TEST_F(JobStart, AnExpertThatArrivesIsPackedByAWorkerWhereTheStoreHasTooMuchToDo) {
  ASSERT_TRUE(store_->run_beside([&] {
    entered_.count_down();
    leave_.wait();
  }));
  entered_.wait();
  ASSERT_TRUE(store_->run_beside([] {}));
  const auto result = run(work::AdmitExpert{.blob = {}, .expected_hash = {}, .arriving = blob_});
  leave_.count_down();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_EQ(blob_->reader, worker());
}

TEST_F(JobStart, OtherJobsRunOnAWorker) {
  const auto result = run(work::AdmitExpert{
      .blob = {}, .expected_hash = {}, .source = blob_, .memory_bytes_max = 1U << 20U});
  ASSERT_FALSE(result);
  EXPECT_EQ(blob_->reader, worker());
}

TEST_F(JobStart, OfARequestThatIsOverIsCancelledBeforeItReads) {
  const auto result =
      run(work::AdmitExpert{.blob = {}, .expected_hash = {}, .arriving = blob_}, true);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::cancelled);
  EXPECT_EQ(blob_->reader, std::thread::id());
}

}  // namespace
}  // namespace tenzro::daemon
