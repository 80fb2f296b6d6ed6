#pragma once
/// \file
/// Starts the jobs of a node on the threads where they belong: those that wait for the disk on the
/// store's, beside the reading, the others on the pool's. Where the store's queue is full the pool
/// takes its jobs too; where the pool's is, the result is `busy` at once.
#include <atomic>
#include <functional>
#include <memory>

#include "tenzro/work/bodies.hpp"

#include "workshop.hpp"

namespace tenzro::daemon {

/// Set when a request's work is worth nothing any more: its jobs end at their next slice.
using StopFlag = std::shared_ptr<std::atomic<bool>>;

/// Runs the job here unless it is stopped before or while it runs; then whatever it gave is not
/// used, and the result is `cancelled`.
[[nodiscard]] work::JobResult run_unless_stopped(const work::Job& job,
                                                 const work::JobContext& context,
                                                 const std::atomic<bool>& stop);

/// `deliver` is called once, on any thread, perhaps before this returns; never where the threads
/// end first.
void start_job(const Workshop& workshop, work::Job job, const StopFlag& stop,
               const std::function<void(work::JobResult)>& deliver);

}  // namespace tenzro::daemon
