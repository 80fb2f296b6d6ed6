#pragma once
/// \file
/// How much memory experts may take when the operator leaves it to us: reading the system's files.
#include <cstdint>
#include <optional>
#include <string>

#include "memory_facts.hpp"

namespace tenzro::daemon {

/// memory_facts.hpp's budget, of this process and every cgroup above it. `root` is "" outside
/// tests: files are read below `root` + /proc and /sys.
[[nodiscard]] MemoryBudget automatic_memory_budget(const std::string& root);

/// The pressure of this process's cgroup, or of the machine; absent where the kernel does not tell.
[[nodiscard]] std::optional<std::uint32_t> current_memory_pressure(const std::string& root);

}  // namespace tenzro::daemon
