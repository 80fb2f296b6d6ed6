#include "contest.hpp"

#include <algorithm>
#include <cmath>
#include <future>

#include "tenzro/exec/pool.hpp"

#include "rounds.hpp"

namespace tenzro::bench {
namespace {

constexpr double kCallsMax = 100'000;

double time_calls(const Contestant& contestant, std::size_t calls, clockid_t clock) {
  const double taken = seconds_of(clock, [&] {
    for (std::size_t i = 0; i < calls; ++i) contestant.call();
  });
  return std::max(taken, 1e-9);
}

}  // namespace

std::vector<std::vector<double>> hold_contest(const std::vector<Contestant>& contestants,
                                              const ContestOptions& options) {
  std::vector<std::size_t> calls;
  for (const Contestant& contestant : contestants) {
    contestant.call();
    const double one = time_calls(contestant, 1, options.clock);
    calls.push_back(static_cast<std::size_t>(
        std::clamp(std::ceil(options.sample_seconds / one), 1.0, kCallsMax)));
  }
  std::vector<std::vector<double>> rates(contestants.size());
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const double seconds = time_calls(contestants[i], calls[i], options.clock);
      rates[i].push_back(contestants[i].amount * static_cast<double>(calls[i]) / seconds);
    }
  }
  return rates;
}

void run_on_pool(std::size_t threads, const std::function<void(compute::Executor&)>& body) {
  exec::Pool pool({.threads = threads});
  std::promise<void> done;
  const bool taken = pool.submit(exec::Priority::compute, [&] {
    body(pool);
    done.set_value();
  });
  if (taken) done.get_future().wait();
}

double median_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

}  // namespace tenzro::bench
