#include "job_start.hpp"

#include <cstddef>
#include <utility>

#include "tenzro/node/run_job.hpp"

namespace tenzro::daemon {
namespace {

/// The pool, as long as a request is wanted: after that its slices do nothing, so that a job ends
/// soon.
class StoppableExecutor final : public compute::Executor {
 public:
  StoppableExecutor(compute::Executor& pool, const std::atomic<bool>& stop)
      : pool_(pool), stop_(stop) {}

  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) override {
    if (stop_) return;
    pool_.parallel_for(count, [&](std::size_t i) {
      if (!stop_) body(i);
    });
  }

  [[nodiscard]] std::size_t concurrency() const override { return pool_.concurrency(); }

 private:
  compute::Executor& pool_;
  const std::atomic<bool>& stop_;
};

}  // namespace

work::JobResult run_unless_stopped(const work::Job& job, const work::JobContext& context,
                                   const std::atomic<bool>& stop) {
  const Error stopped{ErrorCode::cancelled, "", "the request is over"};
  if (stop) return fail(stopped);
  StoppableExecutor executor(context.executor, stop);
  work::JobResult result =
      node::run_job(job, {context.backend, executor, context.identity, context.base64});
  if (stop) return fail(stopped);
  return result;
}

void start_job(const Workshop& workshop, work::Job job, const StopFlag& stop,
               const std::function<void(work::JobResult)>& deliver) {
  const auto priority = node::is_short(job) ? exec::Priority::short_job : exec::Priority::compute;
  const auto shared = std::make_shared<const work::Job>(std::move(job));
  if (node::waits_for_disk(*shared)) {
    // Beside the reading of the blob, which is on another thread there: no worker waits for it.
    const bool is_beside =
        workshop.store.run_beside([deliver, shared, stop, context = workshop.jobs] {
          compute::SerialExecutor here;
          deliver(run_unless_stopped(
              *shared, {context.backend, here, context.identity, context.base64}, *stop));
        });
    if (is_beside) return;
  }
  const bool taken =
      workshop.pool.submit(priority, [deliver, shared, stop, context = workshop.jobs] {
        deliver(run_unless_stopped(*shared, context, *stop));
      });
  if (!taken) deliver(fail(ErrorCode::busy, "", "busy: the compute queue is full"));
}

}  // namespace tenzro::daemon
