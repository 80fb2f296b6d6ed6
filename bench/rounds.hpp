#pragma once
/// \file
/// Rounds: the options and the clock of programs that time work of one thread, round by round.
#include <ctime>
#include <functional>
#include <string>

namespace tenzro::bench {

struct Rounds {
  std::string json;  ///< file; empty: none
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
  int count = 1;
};

/// `[--json FILE] [--wall] [--rounds N]`, N being `count` by itself; ends the program with the
/// usage where there is anything else.
[[nodiscard]] Rounds read_rounds(int argc, char** argv, int count);
/// What one call takes by that clock.
[[nodiscard]] double seconds_of(clockid_t clock, const std::function<void()>& work);

}  // namespace tenzro::bench
