// How the store's threads share the work: bounded, reads beside changes, and what a destructor
// does.
#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

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

TEST(StoreThreads, WorkBesideGoesBeforeAllThatWaitsInOrderOfPosting) {
  TemporaryDirectory temporary;
  std::latch entered(1);
  std::latch leave(1);
  std::latch done(4);
  std::vector<std::string> order;  // written by the one thread
  const auto note = [&](const char* name) {
    order.emplace_back(name);
    done.count_down();
  };
  const auto read = [&](const Result<std::uint64_t>&) { note("read"); };
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .threads = 1});
  ASSERT_TRUE(node.open());
  node.store().stat_blob({}, [&](const Result<std::uint64_t>&) {
    entered.count_down();
    leave.wait();
  });
  entered.wait();
  node.store().stat_blob({}, read);
  node.store().stat_blob({}, read);
  ASSERT_TRUE(node.store().run_beside([&] { note("first"); }));
  ASSERT_TRUE(node.store().run_beside([&] { note("second"); }));
  leave.count_down();
  done.wait();
  EXPECT_THAT(order, ::testing::ElementsAre("first", "second", "read", "read"));
}

TEST(StoreThreads, WorkBesideThatTakesEveryThreadStillGetsItsBytes) {
  for (const std::size_t threads : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    TemporaryDirectory temporary;
    FileSystem files;
    Result<DataDir> dir = DataDir::open(temporary / "data", files);
    ASSERT_TRUE(dir);
    constexpr std::ptrdiff_t kReads = 12;
    const BufferRef blob = BufferRef::copy_of(std::string(3U << 20U, 'x'));
    std::latch published(1);
    std::latch packed(kReads);
    std::atomic<int> right = 0;
    std::unique_ptr<Store> store;
    const Options options{.blob_dir = {}, .threads = threads};
    Result<OpenedStore> opened =
        Store::open(*dir, options, [&](JobId id, const work::StoreResult& result) {
          if (id == JobId{100}) return published.count_down();
          const auto source = std::get<work::Arriving>(result.value()).blob;
          // As much as waits for the end of the read as there can be.
          EXPECT_TRUE(store->run_beside([&, source] {
            std::vector<std::byte> scratch;
            const auto last = source->view(source->size_bytes() - 1, 1, scratch);
            if (last && last->front() == std::byte{'x'} && source->hash()) ++right;
            packed.count_down();
          }));
        });
    ASSERT_TRUE(opened);
    store = std::move(opened->store);
    store->submit(JobId{100}, work::PublishBlob{blob});
    published.wait();
    const BlobHash hash = crypto::blake3(blob.bytes());
    for (std::uint64_t i = 0; i < kReads; ++i)
      store->submit(JobId{i}, work::ReadBlob{.hash = hash, .wants_hash = true, .may_arrive = true});
    packed.wait();
    EXPECT_EQ(right, kReads);
  }
}

TEST(StoreThreads, FullQueueTakesNoWorkBeside) {
  TemporaryDirectory temporary;
  std::latch entered(1);
  std::latch leave(1);
  std::latch done(2);
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .threads = 1, .queue_max = 2});
  ASSERT_TRUE(node.open());
  node.store().stat_blob({}, [&](const Result<std::uint64_t>&) {
    entered.count_down();
    leave.wait();
  });
  entered.wait();
  EXPECT_TRUE(node.store().run_beside([&] { done.count_down(); }));
  EXPECT_TRUE(node.store().run_beside([&] { done.count_down(); }));
  EXPECT_FALSE(node.store().run_beside([&] { done.count_down(); }));
  leave.count_down();
  done.wait();
}

TEST(StoreThreads, RunAtLowerPriorityThanTheirMaker) {
  const int own = getpriority(PRIO_PROCESS, 0);
  TemporaryDirectory temporary;
  int thread = 0;
  std::latch done(1);
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.open());
  ASSERT_TRUE(node.store().run_beside([&] {
    thread = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
    done.count_down();
  }));
  done.wait();
  EXPECT_TRUE(thread > own || own >= 15) << thread << " is not nicer than " << own;
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
