#pragma once
/// \file
/// Times several bodies in turn, so that what disturbs the machine disturbs all of them alike.
#include <cstddef>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "tenzro/compute/backend.hpp"

namespace tenzro::bench {

struct Contestant {
  std::string path;
  double amount = 0;           ///< what a call does, in the unit of the rates (GB, GFLOP)
  std::function<void()> call;  ///< called again and again
};

struct ContestOptions {
  clockid_t clock = CLOCK_MONOTONIC;
  std::size_t rounds = 15;
  double sample_seconds = 0.02;  ///< a sample is as many calls as fill it, at least one
};

/// For each contestant its rate in every round, amount a second.
[[nodiscard]] std::vector<std::vector<double>> hold_contest(
    const std::vector<Contestant>& contestants, const ContestOptions& options);

/// Calls `body` on a worker of a pool of `threads`, as the node runs a job: the worker is one of
/// those threads.
void run_on_pool(std::size_t threads, const std::function<void(compute::Executor&)>& body);

[[nodiscard]] double median_of(std::vector<double> samples);

}  // namespace tenzro::bench
