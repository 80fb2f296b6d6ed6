// How the store's threads share the work: bounded, reads beside changes, and what a destructor
// does.
#include <atomic>
#include <latch>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_store.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using testing::TemporaryDirectory;

TEST(StoreThreads, ReadsDoNotWaitForAChange) {
  TemporaryDirectory temporary;
  FileSystem files;
  Result<DataDir> dir = DataDir::open(temporary / "data", files);
  ASSERT_TRUE(dir);
  std::latch change_runs(1);
  std::latch read_done(1);
  std::latch both_done(2);
  Result<OpenedStore> opened =
      Store::open(*dir, Options{}, [&](JobId id, const work::StoreResult&) {
        if (id == JobId{1}) {
          change_runs.count_down();
          read_done.wait();  // the change is not over before the read is
        } else {
          read_done.count_down();
        }
        both_done.count_down();
      });
  ASSERT_TRUE(opened);
  opened->store->submit(JobId{1}, work::PublishBlob{BufferRef::copy_of("blob")});
  change_runs.wait();
  opened->store->submit(JobId{2}, work::ReadBlob{hash_of("blob")});
  both_done.wait();
}

TEST(StoreThreads, FullQueueIsBusyAtOnceAndEveryOperationIsAnsweredOnce) {
  TemporaryDirectory temporary;
  FileSystem files;
  Result<DataDir> dir = DataDir::open(temporary / "data", files);
  ASSERT_TRUE(dir);
  std::latch entered(1);
  std::latch leave(1);
  std::latch answered(4);
  std::atomic<int> busy = 0;
  const Options options{.blob_dir = {}, .threads = 1, .queue_max = 1};
  Result<OpenedStore> opened =
      Store::open(*dir, options, [&](JobId id, const work::StoreResult& result) {
        if (id == JobId{1}) {
          entered.count_down();
          leave.wait();
        }
        if (!result && result.error().code == ErrorCode::busy) ++busy;
        answered.count_down();
      });
  ASSERT_TRUE(opened);
  opened->store->submit(JobId{1}, work::ReadSource{"/", "", 0, 1, false});
  entered.wait();
  opened->store->submit(JobId{2}, work::ReadSource{"/", "", 0, 1, false});
  opened->store->submit(JobId{3}, work::ReadSource{"/", "", 0, 1, false});
  opened->store->submit(JobId{4}, work::PublishBlob{BufferRef::copy_of("x")});
  EXPECT_EQ(busy, 2);
  leave.count_down();
  answered.wait();
  EXPECT_EQ(busy, 2);
}

/// Counts down when the last copy of the callback that holds it is gone.
struct CountDownWhenFreed {
  std::latch& latch;

  explicit CountDownWhenFreed(std::latch& counted) : latch(counted) {}

  CountDownWhenFreed(const CountDownWhenFreed&) = delete;
  CountDownWhenFreed& operator=(const CountDownWhenFreed&) = delete;

  ~CountDownWhenFreed() { latch.count_down(); }
};

TEST(StoreThreads, DestructorDropsWhatWaitsAndWaitsForWhatRuns) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .threads = 1});
  ASSERT_TRUE(node.open());
  std::latch entered(1);
  std::latch dropped(1);
  std::atomic<bool> running_finished = false;
  std::atomic<bool> waiting_ran = false;
  node.store().stat_blob({}, [&](const Result<std::uint64_t>&) {
    entered.count_down();
    dropped.wait();  // so it still runs when the destructor has begun
    running_finished = true;
  });
  entered.wait();
  node.store().stat_blob({}, [&waiting_ran, held = std::make_shared<CountDownWhenFreed>(dropped)](
                                 const Result<std::uint64_t>&) { waiting_ran = true; });
  node.close();
  EXPECT_TRUE(running_finished);
  EXPECT_FALSE(waiting_ran);
}

}  // namespace
}  // namespace tenzro::store
