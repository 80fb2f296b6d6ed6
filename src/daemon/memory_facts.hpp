#pragma once
/// \file
/// What the system's files say about memory: pure functions of their texts.
///
/// The kernel's formats: /proc/meminfo, memory.max, memory.high, memory.current and memory.stat of
/// a cgroup v2, memory.limit_in_bytes, memory.usage_in_bytes and memory.stat of a v1,
/// memory.pressure, /proc/self/cgroup. What is not there or cannot be understood is absent, never a
/// guess.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenzro::daemon {

enum class CgroupVersion : std::uint8_t { v1, v2 };

/// Bytes.
[[nodiscard]] std::optional<std::uint64_t> available_memory(std::string_view meminfo);

/// A limit file's number; absent for "max", and for v1's way of saying so, a number beyond any
/// memory.
[[nodiscard]] std::optional<std::uint64_t> memory_limit(std::string_view text);

/// Bytes of a cgroup that the kernel gives back before anything fails: page cache and slabs.
[[nodiscard]] std::uint64_t reclaimable_memory(std::string_view stat, CgroupVersion version);

/// One cgroup, or the root of all, as its files say.
struct CgroupMemory {
  std::string name;  ///< its path, for the log
  CgroupVersion version = CgroupVersion::v2;
  std::string limit;       ///< text of memory.max or memory.limit_in_bytes
  std::string soft_limit;  ///< text of memory.high
  std::string usage;
  std::string stat;
};

/// What the group still allows: its limit, less what it uses, more what it would give back. Absent
/// where it has no limit.
[[nodiscard]] std::optional<std::uint64_t> allowance(const CgroupMemory& group);

struct CgroupPath {
  CgroupVersion version = CgroupVersion::v2;
  std::string path;  ///< "" for the root
};

/// The groups of /proc/self/cgroup that count memory.
[[nodiscard]] std::vector<CgroupPath> memory_cgroups(std::string_view text);

/// Hundredths of a percent of the last ten seconds in which some task waited for memory.
[[nodiscard]] std::optional<std::uint32_t> memory_pressure(std::string_view text);

struct MemoryBudget {
  std::uint64_t bytes = 0;
  /// How it was computed, for the log.
  std::string reason;
};

/// 60 % of the least of MemAvailable and the allowances; 4 GiB where the first is absent.
[[nodiscard]] MemoryBudget memory_budget(std::optional<std::uint64_t> available,
                                         const std::vector<CgroupMemory>& groups);

/// Shrinks a budget while tasks wait for memory, and gives it back slowly when they no longer do.
///
/// Rules, a sample every few seconds
///  - At `kHigh` or more the budget loses an eighth, down to an eighth of what it was at first.
///  - After `kCalmSamples` in a row at `kLow` or less it gains a sixteenth of what it was at first.
/// Why slower up than down: what was given back would be taken away again.
class PressureGovernor {
 public:
  static constexpr std::uint32_t kHigh = 10'00;
  static constexpr std::uint32_t kLow = 1'00;
  static constexpr unsigned kCalmSamples = 12;

  explicit PressureGovernor(std::uint64_t full_bytes) : full_(full_bytes), budget_(full_bytes) {}

  /// The new budget, where it changes.
  [[nodiscard]] std::optional<std::uint64_t> on_sample(std::uint32_t pressure);

 private:
  std::uint64_t full_;
  std::uint64_t budget_;
  unsigned calm_ = 0;
};

}  // namespace tenzro::daemon
