#include "rounds.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tenzro::bench {
namespace {

double seconds_now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

Rounds read_rounds(int argc, char** argv, int count) {
  Rounds rounds{.count = count};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--wall") {
      rounds.clock = CLOCK_MONOTONIC;
    } else if (word == "--json" && i + 1 < argc) {
      rounds.json = argv[++i];
    } else if (word == "--rounds" && i + 1 < argc) {
      rounds.count = std::max(1, std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr, "usage: %s [--json FILE] [--wall] [--rounds N]\n", argv[0]);
      std::exit(2);
    }
  }
  return rounds;
}

double seconds_of(clockid_t clock, const std::function<void()>& work) {
  const double start = seconds_now(clock);
  work();
  return seconds_now(clock) - start;
}

}  // namespace tenzro::bench
