#pragma once
/// \file
/// The node's worker threads: short jobs and compute slices.
///
/// Two queues, one set of threads. `submit` takes whole jobs; while a job runs, its parallel_for
/// hands out slices of at most about a millisecond that idle workers take before they begin another
/// job, so a layer's work ends early; a slice of an expert that runs from disk is longer, as it
/// reads the disk too. Short jobs (codec, crypto) go before compute jobs. Threads run at a lower
/// priority than the loop's, so that timers and sockets never wait for a matmul; a thread that had
/// work looks 50 us for more before it sleeps, and none spins longer. Queues are bounded: `submit`
/// says no instead of growing. Thread: submit from any; the destructor waits for what runs and
/// drops what waits.
#include <cstddef>
#include <functional>
#include <memory>

#include "tenzro/compute/backend.hpp"

namespace tenzro::exec {

enum class Priority { short_job, compute };

struct PoolOptions {
  std::size_t threads = 1;
  /// Jobs waiting, both queues together.
  std::size_t queue_max = 4096;
};

class Pool final : public compute::Executor {
 public:
  explicit Pool(const PoolOptions& options);
  ~Pool() override;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// False where the queue is full; then `job` was not taken.
  [[nodiscard]] bool submit(Priority priority, std::function<void()> job);
  /// May be called from a worker (inside a job) or from any other thread; the caller works too.
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) override;
  [[nodiscard]] std::size_t concurrency() const override;
  /// Jobs waiting and running.
  [[nodiscard]] std::size_t depth() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenzro::exec
