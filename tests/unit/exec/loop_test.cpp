#include "tenzro/exec/loop.hpp"

#include <thread>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <gtest/gtest.h>

namespace tenzro::exec {
namespace {

/// Stops `loop` once everything that is ready now, timers included, has run.
void stop_after_ready_work(Loop& loop, asio::steady_timer& timer) {
  timer.expires_after(std::chrono::milliseconds(1));
  timer.async_wait([&loop](const asio::error_code&) { loop.stop(); });
}

TEST(Loop, PostsFromOtherThreadsRunInOrderOnTheRunningThread) {
  Loop loop;
  std::vector<int> order;
  std::vector<std::thread::id> ran_on;
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) {
      loop.post([&, i] {
        order.push_back(i);
        ran_on.push_back(std::this_thread::get_id());
        if (i == 2) loop.stop();
      });
    }
  });
  loop.run();
  other.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ran_on, std::vector<std::thread::id>(3, std::this_thread::get_id()));
}

TEST(Loop, DeadlineRunsOnceAndNotEarly) {
  Loop loop;
  asio::steady_timer timer(loop.context());
  const Instant deadline = loop.now() + std::chrono::milliseconds(2);
  int runs = 0;
  loop.arm(deadline, [&] {
    ++runs;
    EXPECT_GE(loop.now(), deadline);
    stop_after_ready_work(loop, timer);
  });
  loop.run();
  EXPECT_EQ(runs, 1);
}

TEST(Loop, PastDeadlineRunsAtOnceButNotInsideArm) {
  Loop loop;
  bool ran = false;
  loop.arm(Instant{Duration{-5}}, [&] {
    ran = true;
    loop.stop();
  });
  EXPECT_FALSE(ran);
  loop.run();
  EXPECT_TRUE(ran);
}

TEST(Loop, RearmReplacesTheDeadlineAndItsTask) {
  Loop loop;
  int first = 0;
  int second = 0;
  loop.arm(loop.now(), [&] { ++first; });
  loop.arm(loop.now() + std::chrono::milliseconds(1), [&] {
    ++second;
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

// An expired wait that Asio has queued already can no longer be cancelled; it must know that it is
// stale.
TEST(Loop, RearmReplacesADeadlineThatHasAlreadyExpired) {
  Loop loop;
  asio::steady_timer earlier(loop.context());
  asio::steady_timer last(loop.context());
  int stale = 0;
  int replacement = 0;
  loop.post([&] {
    const Instant deadline = loop.now() + std::chrono::microseconds(20);
    earlier.expires_after(std::chrono::microseconds(0));
    earlier.async_wait([&](const asio::error_code&) {
      const Instant later = loop.now() + std::chrono::milliseconds(2);
      loop.arm(later, [&, later] {
        ++replacement;
        EXPECT_GE(loop.now(), later);
        stop_after_ready_work(loop, last);
      });
    });
    loop.arm(deadline, [&] { ++stale; });
    while (loop.now() <= deadline) std::this_thread::yield();  // both expire in the same pass
  });
  loop.run();
  EXPECT_EQ(stale, 0);
  EXPECT_EQ(replacement, 1);
}

TEST(Loop, DisarmedDeadlineNeverRuns) {
  Loop loop;
  asio::steady_timer timer(loop.context());
  int runs = 0;
  loop.arm(loop.now(), [&] { ++runs; });
  loop.arm(std::nullopt, nullptr);
  stop_after_ready_work(loop, timer);
  loop.run();
  EXPECT_EQ(runs, 0);
}

TEST(Loop, TaskOfADeadlineMayArmTheNext) {
  Loop loop;
  int runs = 0;
  std::function<void()> again = [&] {
    if (++runs == 3) return loop.stop();
    loop.arm(loop.now(), again);
  };
  loop.arm(loop.now(), again);
  loop.run();
  EXPECT_EQ(runs, 3);
}

TEST(Loop, DeadlineAtTheEndOfTimeDoesNotOverflowIntoThePast) {
  Loop loop;
  asio::steady_timer timer(loop.context());
  int runs = 0;
  loop.arm(Instant{Duration::max()}, [&] { ++runs; });
  stop_after_ready_work(loop, timer);
  loop.run();
  EXPECT_EQ(runs, 0);
}

}  // namespace
}  // namespace tenzro::exec
