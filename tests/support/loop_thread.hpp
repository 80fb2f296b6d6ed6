#pragma once
/// \file
/// LoopThread: a loop on a thread of its own. What belongs to the loop is made, used and ended by
/// `run`, before this ends.
#include <functional>
#include <future>
#include <thread>

#include "tenzro/exec/loop.hpp"

namespace tenzro::testing {

class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}

  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }

  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  [[nodiscard]] exec::Loop& loop() { return loop_; }

  /// On the loop's thread; returns when it is done.
  void run(const std::function<void()>& task) {
    std::promise<void> done;
    loop_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  exec::Loop loop_;
  std::thread thread_;  // last: it ends before what it runs
};

}  // namespace tenzro::testing
