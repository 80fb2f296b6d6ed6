#include "memory_budget.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

namespace tenzro::daemon {
namespace {

constexpr std::size_t kCgroupDepthMax = 64;
constexpr std::size_t kTextBytesMax = 64U << 10U;

/// Empty where there is none. These files say their size only by ending.
std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kTextBytesMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

std::string mount_of(const std::string& root, CgroupVersion version) {
  return root + (version == CgroupVersion::v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
}

CgroupMemory read_group(const std::string& folder, const CgroupPath& group) {
  const bool is_v2 = group.version == CgroupVersion::v2;
  return {.name = group.path.empty() ? "/" : group.path,
          .version = group.version,
          .limit = read_text(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes")),
          .soft_limit = is_v2 ? read_text(folder + "/memory.high") : "",
          .usage = read_text(folder + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes")),
          .stat = read_text(folder + "/memory.stat")};
}

/// The group and all its parents.
void add_tree(const std::string& root, CgroupPath group, std::vector<CgroupMemory>& groups) {
  for (std::size_t depth = 0; depth < kCgroupDepthMax; ++depth) {
    groups.push_back(read_group(mount_of(root, group.version) + group.path, group));
    const std::size_t slash = group.path.find_last_of('/');
    if (slash == std::string::npos) return;
    group.path.resize(slash);
  }
}

}  // namespace

MemoryBudget automatic_memory_budget(const std::string& root) {
  std::vector<CgroupMemory> groups;
  for (const CgroupPath& group : memory_cgroups(read_text(root + "/proc/self/cgroup")))
    add_tree(root, group, groups);
  return memory_budget(available_memory(read_text(root + "/proc/meminfo")), groups);
}

std::optional<std::uint32_t> current_memory_pressure(const std::string& root) {
  for (const CgroupPath& group : memory_cgroups(read_text(root + "/proc/self/cgroup"))) {
    if (group.version != CgroupVersion::v2) continue;
    const std::string folder = mount_of(root, group.version) + group.path;
    if (const auto pressure = memory_pressure(read_text(folder + "/memory.pressure")))
      return pressure;
  }
  return memory_pressure(read_text(root + "/proc/pressure/memory"));
}

}  // namespace tenzro::daemon
