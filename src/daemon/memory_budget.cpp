#include "memory_budget.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

namespace tenzro::daemon {
namespace {

constexpr std::uint64_t kFallbackBytes = 4ULL << 30U;
constexpr int kCgroupDepthMax = 64;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  if (!(in >> text)) return std::nullopt;
  return parse_number(text);  // "max" is no number: no limit
}

/// The value after `key` in a file of "key value" or "key: value kB" lines.
std::optional<std::uint64_t> read_field(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

/// What one cgroup still allows: limit - usage + the page cache that would be given back.
std::optional<std::uint64_t> allowance(const std::string& folder, bool is_v2) {
  const auto limit = read_number(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto usage = read_number(folder + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !usage) return std::nullopt;
  const std::uint64_t cache =
      read_field(folder + "/memory.stat", is_v2 ? "inactive_file" : "total_inactive_file")
          .value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

/// The least allowance of a cgroup and all its parents.
std::optional<std::uint64_t> least_allowance(const std::string& mount, std::string group,
                                             bool is_v2) {
  std::optional<std::uint64_t> least;
  for (int depth = 0; depth < kCgroupDepthMax; ++depth) {
    if (const auto here = allowance(mount + group, is_v2))
      least = std::min(least.value_or(*here), *here);
    const std::size_t slash = group.find_last_of('/');
    if (group.empty() || slash == std::string::npos) break;
    group.resize(slash);
  }
  return least;
}

/// Lines of /proc/self/cgroup: "0::/path" (v2) or "N:memory:/path" (v1).
std::optional<std::uint64_t> cgroup_allowance(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::optional<std::uint64_t> least;
  std::string line;
  while (std::getline(in, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && controllers.find("memory") == std::string::npos) continue;
    const std::string mount = root + (is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    if (const auto here = least_allowance(mount, group == "/" ? "" : group, is_v2)) {
      least = std::min(least.value_or(*here), *here);
    }
  }
  return least;
}

}  // namespace

MemoryBudget automatic_memory_budget(const std::string& root) {
  const auto available_kib = read_field(root + "/proc/meminfo", "MemAvailable:");
  if (!available_kib) return {kFallbackBytes, "MemAvailable cannot be read: 4 GiB"};
  std::uint64_t available = *available_kib * 1024;
  std::string reason = "60 % of MemAvailable " + std::to_string(available >> 20U) + " MiB";
  if (const auto group = cgroup_allowance(root); group && *group < available) {
    available = *group;
    reason = "60 % of what the memory cgroup allows, " + std::to_string(available >> 20U) + " MiB";
  }
  return {std::max<std::uint64_t>(available / 10 * 6, 1), reason};
}

}  // namespace tenzro::daemon
