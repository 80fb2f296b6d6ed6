#pragma once
/// \file
/// The wall clock as signatures between nodes carry it.
#include <chrono>
#include <cstdint>

namespace tenzro::daemon {

[[nodiscard]] inline std::int64_t unix_seconds() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

}  // namespace tenzro::daemon
