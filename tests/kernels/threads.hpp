#pragma once
/// \file
/// An Executor over plain threads, so that the kernel tests need no module above the seam.
#include <atomic>
#include <thread>
#include <vector>

#include "tenzro/compute/backend.hpp"

namespace tenzro::testing {

/// Starts its threads anew for every call: slow and simple. Slices are taken from the back, so that
/// an order that happens to work is not the one that is tested.
class ThreadsExecutor final : public compute::Executor {
 public:
  explicit ThreadsExecutor(std::size_t threads) : threads_(threads) {}

  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) override {
    std::atomic<std::size_t> taken{0};
    const auto work = [&] {
      for (std::size_t i = taken.fetch_add(1); i < count; i = taken.fetch_add(1))
        body(count - 1 - i);
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < threads_; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }

  [[nodiscard]] std::size_t concurrency() const override { return threads_; }

 private:
  std::size_t threads_;
};

}  // namespace tenzro::testing
