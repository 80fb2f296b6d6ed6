#include "tenzro/exec/pool.hpp"

#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tenzro::exec {
namespace {

class Counters {
 public:
  explicit Counters(std::size_t count) : hits_(count) {}

  void hit(std::size_t index) { hits_.at(index).fetch_add(1); }

  [[nodiscard]] bool all_equal(int wanted) const {
    for (const auto& hits : hits_) {
      if (hits.load() != wanted) return false;
    }
    return true;
  }

 private:
  std::vector<std::atomic<int>> hits_;
};

/// A job that keeps its worker busy until open() is called. Outlives the pool.
class Gate {
 public:
  void occupy_worker_of(Pool& pool) {
    ASSERT_TRUE(pool.submit(Priority::compute, [this] {
      entered_.count_down();
      opened_.wait();
    }));
    entered_.wait();
  }

  void open() { opened_.count_down(); }

 private:
  std::latch entered_{1};
  std::latch opened_{1};
};

TEST(Pool, ParallelForRunsEveryIndexExactlyOnce) {
  Pool pool({.threads = 3});
  Counters counters(10'000);
  pool.parallel_for(10'000, [&](std::size_t i) { counters.hit(i); });
  EXPECT_TRUE(counters.all_equal(1));
}

TEST(Pool, ParallelForOverNothingOrOneNeedsNoWorker) {
  Gate gate;
  Pool pool({.threads = 1});
  gate.occupy_worker_of(pool);
  int runs = 0;
  pool.parallel_for(0, [&](std::size_t) { ++runs; });
  EXPECT_EQ(runs, 0);
  pool.parallel_for(1, [&](std::size_t) { ++runs; });
  EXPECT_EQ(runs, 1);
  gate.open();
}

TEST(Pool, CallerFinishesAloneWhileEveryWorkerIsBusy) {
  Gate gate;
  Pool pool({.threads = 1});
  gate.occupy_worker_of(pool);
  Counters counters(100);
  pool.parallel_for(100, [&](std::size_t i) { counters.hit(i); });
  EXPECT_TRUE(counters.all_equal(1));
  gate.open();
}

TEST(Pool, IdleWorkersHelpTheCaller) {
  Pool pool({.threads = 2});
  std::latch all_inside(3);  // opens only where the caller and both workers are in at once
  pool.parallel_for(3, [&](std::size_t) { all_inside.arrive_and_wait(); });
}

TEST(Pool, IdleWorkersHelpAJobThatRunsOnAnotherWorker) {
  Pool pool({.threads = 2});
  std::latch both_inside(2);
  std::latch done(1);
  ASSERT_TRUE(pool.submit(Priority::compute, [&] {
    pool.parallel_for(2, [&](std::size_t) { both_inside.arrive_and_wait(); });
    done.count_down();
  }));
  done.wait();
}

TEST(Pool, NestedAndConcurrentParallelForsRunEveryIndexOnce) {
  constexpr std::size_t kJobs = 6;
  constexpr std::size_t kOuter = 20;
  constexpr std::size_t kInner = 50;
  Pool pool({.threads = 3});
  Counters counters(kOuter * kInner);
  std::latch done(kJobs);
  for (std::size_t job = 0; job < kJobs; ++job) {
    ASSERT_TRUE(pool.submit(Priority::compute, [&] {
      pool.parallel_for(kOuter, [&](std::size_t outer) {
        pool.parallel_for(kInner, [&](std::size_t inner) { counters.hit(outer * kInner + inner); });
      });
      done.count_down();
    }));
  }
  done.wait();
  EXPECT_TRUE(counters.all_equal(kJobs));
}

TEST(Pool, WritesOfSlicesAreVisibleToTheCaller) {
  Pool pool({.threads = 3});
  std::vector<std::size_t> plain(1000);
  for (int round = 0; round < 50; ++round) {
    pool.parallel_for(plain.size(), [&](std::size_t i) { plain[i] += i; });
  }
  for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(plain[i], 50 * i);
}

TEST(Pool, FullQueueSaysNoAndDoesNotTakeTheJob) {
  Gate gate;
  Pool pool({.threads = 1, .queue_max = 2});
  gate.occupy_worker_of(pool);
  std::atomic<int> runs = 0;
  EXPECT_TRUE(pool.submit(Priority::short_job, [&] { ++runs; }));
  std::latch last_done(1);
  EXPECT_TRUE(pool.submit(Priority::compute, [&] {
    ++runs;
    last_done.count_down();
  }));
  EXPECT_FALSE(pool.submit(Priority::short_job, [&] { ++runs; }));
  EXPECT_FALSE(pool.submit(Priority::compute, [&] { ++runs; }));
  EXPECT_EQ(pool.depth(), 3U);
  gate.open();
  last_done.wait();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(pool.submit(Priority::compute, [] {}));
}

TEST(Pool, ShortJobsRunBeforeComputeJobs) {
  Gate gate;
  Pool pool({.threads = 1});
  gate.occupy_worker_of(pool);
  std::vector<std::string> order;
  std::latch done(4);
  const auto record = [&](std::string name) {
    return [&order, &done, name] {
      order.push_back(name);
      done.count_down();
    };
  };
  ASSERT_TRUE(pool.submit(Priority::compute, record("compute 1")));
  ASSERT_TRUE(pool.submit(Priority::short_job, record("short 1")));
  ASSERT_TRUE(pool.submit(Priority::compute, record("compute 2")));
  ASSERT_TRUE(pool.submit(Priority::short_job, record("short 2")));
  gate.open();
  done.wait();
  EXPECT_EQ(order, (std::vector<std::string>{"short 1", "short 2", "compute 1", "compute 2"}));
}

TEST(Pool, FreeWorkerHelpsARunningJobBeforeItBeginsAnother) {
  Gate gate;
  Pool pool({.threads = 2});
  gate.occupy_worker_of(pool);
  std::atomic<bool> next_began = false;
  std::atomic<bool> next_began_first = false;
  std::latch both_inside(2);
  std::latch began(1);
  std::latch done(2);
  ASSERT_TRUE(pool.submit(Priority::compute, [&] {
    began.count_down();
    pool.parallel_for(2, [&](std::size_t i) {
      if (i == 0) gate.open();  // the slices are open: now the other worker becomes free
      if (i == 1) next_began_first = next_began.load();
      both_inside.arrive_and_wait();
    });
    done.count_down();
  }));
  began.wait();
  ASSERT_TRUE(pool.submit(Priority::short_job, [&] {
    next_began = true;
    done.count_down();
  }));
  done.wait();
  EXPECT_FALSE(next_began_first);
}

TEST(Pool, DepthCountsWaitingAndRunning) {
  Gate gate;
  Pool pool({.threads = 1});
  EXPECT_EQ(pool.depth(), 0U);
  gate.occupy_worker_of(pool);
  EXPECT_EQ(pool.depth(), 1U);
  ASSERT_TRUE(pool.submit(Priority::short_job, [] {}));
  EXPECT_EQ(pool.depth(), 2U);
  gate.open();
}

/// Counts down when the last copy of the job that holds it is gone.
struct CountDownWhenFreed {
  std::latch& latch;

  explicit CountDownWhenFreed(std::latch& counted) : latch(counted) {}

  CountDownWhenFreed(const CountDownWhenFreed&) = delete;
  CountDownWhenFreed& operator=(const CountDownWhenFreed&) = delete;

  ~CountDownWhenFreed() { latch.count_down(); }
};

TEST(Pool, DestructorDropsWhatWaitsAndWaitsForWhatRuns) {
  std::latch began(1);
  std::latch dropped(1);
  std::atomic<bool> running_finished = false;
  std::atomic<bool> waiting_ran = false;
  std::optional<Pool> pool(std::in_place, PoolOptions{.threads = 1});
  Pool& dying = *pool;
  ASSERT_TRUE(pool->submit(Priority::compute, [&] {
    began.count_down();
    dropped.wait();  // so it still runs when the destructor has begun
    EXPECT_FALSE(dying.submit(Priority::compute, [] {}));
    running_finished = true;
  }));
  began.wait();
  ASSERT_TRUE(pool->submit(Priority::short_job,
                           [&waiting_ran, held = std::make_shared<CountDownWhenFreed>(dropped)] {
                             waiting_ran = true;
                           }));
  pool.reset();
  EXPECT_TRUE(running_finished);
  EXPECT_FALSE(waiting_ran);
}

TEST(Pool, WorkersRunAtLowerPriorityThanTheirMaker) {
  const int own = getpriority(PRIO_PROCESS, 0);
  Pool pool({.threads = 1});
  int worker = 0;
  std::latch done(1);
  ASSERT_TRUE(pool.submit(Priority::short_job, [&] {
    worker = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
    done.count_down();
  }));
  done.wait();
  EXPECT_TRUE(worker > own || own >= 15) << worker << " is not nicer than " << own;
}

TEST(Pool, ConcurrencyIsTheNumberOfThreadsAndNeverZero) {
  EXPECT_EQ(Pool({.threads = 3}).concurrency(), 3U);
  EXPECT_EQ(Pool({.threads = 0}).concurrency(), 1U);
}

}  // namespace
}  // namespace tenzro::exec
