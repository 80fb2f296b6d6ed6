// The budget over made-up /proc and /sys trees.
#include "memory_budget.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <stdlib.h>

namespace tenzro::daemon {
namespace {

class MemoryBudgetTest : public ::testing::Test {
 protected:
  MemoryBudgetTest() {
    std::string path = (std::filesystem::temp_directory_path() / "tenzro-proc-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    root_ = path;
  }

  ~MemoryBudgetTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path(root_ + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::string root_;
};

constexpr std::uint64_t kMiB = 1ULL << 20U;

TEST_F(MemoryBudgetTest, IsFourGiBWhereNothingCanBeRead) {
  EXPECT_EQ(automatic_memory_budget(root_).bytes, 4ULL << 30U);
}

TEST_F(MemoryBudgetTest, IsSixtyPercentOfWhatIsAvailable) {
  write("/proc/meminfo", "MemTotal:       2048000 kB\nMemAvailable:   1024000 kB\n");
  EXPECT_EQ(automatic_memory_budget(root_).bytes, 1024000ULL * 1024 / 10 * 6);
}

TEST_F(MemoryBudgetTest, TakesTheTightestCgroupUpTheTreeAndCountsItsCacheAsFree) {
  write("/proc/meminfo", "MemAvailable: 1048576 kB\n");
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  write("/sys/fs/cgroup/a/memory.max", std::to_string(500 * kMiB));
  write("/sys/fs/cgroup/a/memory.current", std::to_string(200 * kMiB));
  write("/sys/fs/cgroup/a/memory.stat",
        "anon 1\ninactive_file " + std::to_string(100 * kMiB) + "\n");
  EXPECT_EQ(automatic_memory_budget(root_).bytes, 400 * kMiB / 10 * 6);
}

TEST_F(MemoryBudgetTest, ReadsTheOldKindOfCgroupToo) {
  write("/proc/meminfo", "MemAvailable: 1048576 kB\n");
  write("/proc/self/cgroup", "5:cpu:/x\n4:memory:/box\n");
  write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", std::to_string(300 * kMiB));
  write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", std::to_string(50 * kMiB));
  EXPECT_EQ(automatic_memory_budget(root_).bytes, 250 * kMiB / 10 * 6);
}

TEST_F(MemoryBudgetTest, FullCgroupLeavesOneByteNotNothing) {
  write("/proc/meminfo", "MemAvailable: 1048576 kB\n");
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "1000");
  write("/sys/fs/cgroup/memory.current", "5000");
  EXPECT_EQ(automatic_memory_budget(root_).bytes, 1U);
}

}  // namespace
}  // namespace tenzro::daemon
