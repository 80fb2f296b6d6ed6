#pragma once
/// \file
/// How much memory experts may take when the operator leaves it to us.
#include <cstdint>
#include <string>

namespace tenzro::daemon {

struct MemoryBudget {
  std::uint64_t bytes = 0;
  /// How it was computed, for the log.
  std::string reason;
};

/// 60 % of the least of MemAvailable and what every memory cgroup above this process still allows
/// (its page cache counted as free); 4 GiB where nothing can be read. `root` is "" outside tests:
/// files are read below `root` + /proc and /sys.
[[nodiscard]] MemoryBudget automatic_memory_budget(const std::string& root);

}  // namespace tenzro::daemon
