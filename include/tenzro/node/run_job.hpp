#pragma once
/// \file
/// Runs one compute job: the one place that knows which body belongs to which job.
///
/// Pure; any worker thread. The simulator calls the same function.
#include "tenzro/work/bodies.hpp"

namespace tenzro::node {

[[nodiscard]] work::JobResult run_job(const work::Job& job, const work::JobContext& context);

/// True for jobs that are over in well under a millisecond and should not wait behind matrix work.
[[nodiscard]] bool is_short(const work::Job& job);

/// True for jobs that wait for bytes from disk, and so belong on a thread that may.
[[nodiscard]] bool waits_for_disk(const work::Job& job);

/// True for jobs so short, about a fifth of a millisecond at most, that handing them to a worker
/// takes about as long: those of tenzro/exec with few rows.
[[nodiscard]] bool is_tiny(const work::Job& job);

}  // namespace tenzro::node
