// The system's texts about memory, as kernels write them.
#include "memory_facts.hpp"

#include <gtest/gtest.h>

namespace tenzro::daemon {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;

std::string mib(std::uint64_t count) {
  return std::to_string(count * kMiB) + "\n";
}

CgroupMemory group(std::string limit, std::string usage, std::string stat = "") {
  return {.name = "g",
          .limit = std::move(limit),
          .soft_limit = "",
          .usage = std::move(usage),
          .stat = std::move(stat)};
}

TEST(MemoryFacts, AvailableIsReadFromItsOwnLineInKib) {
  EXPECT_EQ(available_memory("MemTotal:  9 kB\nMemAvailable:    2048 kB\nMemFree: 7 kB\n"),
            2 * kMiB);
  EXPECT_EQ(available_memory("MemTotal: 9 kB\n"), std::nullopt);
  EXPECT_EQ(available_memory("MemAvailableX: 9 kB\n"), std::nullopt);
  EXPECT_EQ(available_memory("MemAvailable: lots\n"), std::nullopt);
  EXPECT_EQ(available_memory(""), std::nullopt);
}

TEST(MemoryFacts, BothWaysOfSayingNoLimitAreNone) {
  EXPECT_EQ(memory_limit("max\n"), std::nullopt);
  EXPECT_EQ(memory_limit("9223372036854771712\n"), std::nullopt);
  EXPECT_EQ(memory_limit("18446744073709551616\n"), std::nullopt);
  EXPECT_EQ(memory_limit(""), std::nullopt);
  EXPECT_EQ(memory_limit("524288000\n"), 500 * kMiB);
}

TEST(MemoryFacts, CacheAndSlabsCountAsFree) {
  const std::string stat = "anon 5\nfile 9\ninactive_file " + mib(100) + "active_file " + mib(40) +
                           "slab_reclaimable " + mib(10);
  EXPECT_EQ(allowance(group(mib(500), mib(400), stat)), 250 * kMiB);
  CgroupMemory old = group(mib(500), mib(400));
  old.version = CgroupVersion::v1;
  old.stat =
      "inactive_file " + mib(1) + "total_inactive_file " + mib(30) + "total_active_file " + mib(20);
  EXPECT_EQ(allowance(old), 150 * kMiB);
}

TEST(MemoryFacts, SoftLimitCountsWhereItIsTighter) {
  CgroupMemory both = group(mib(500), mib(100));
  both.soft_limit = mib(300);
  EXPECT_EQ(allowance(both), 200 * kMiB);
  both.limit = "max\n";
  EXPECT_EQ(allowance(both), 200 * kMiB);
  both.soft_limit = "max\n";
  EXPECT_EQ(allowance(both), std::nullopt);
}

TEST(MemoryFacts, WhoUsesMoreThanItsLimitHasNothingLeftAndCacheNeverMakesMoreThanTheLimit) {
  EXPECT_EQ(allowance(group(mib(10), mib(20))), 0U);
  EXPECT_EQ(allowance(group(mib(10), mib(5), "inactive_file " + mib(999))), 10 * kMiB);
}

TEST(MemoryFacts, GroupsThatCountMemoryAreFoundAmongTheOthers) {
  const auto groups = memory_cgroups(
      "9:name=systemd:/\n5:cpu,cpuacct:/x\n4:memory:/box/inner\n3:notmemory:/y\nrubbish\n0::/\n");
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].version, CgroupVersion::v1);
  EXPECT_EQ(groups[0].path, "/box/inner");
  EXPECT_EQ(groups[1].version, CgroupVersion::v2);
  EXPECT_EQ(groups[1].path, "");
  EXPECT_EQ(memory_cgroups("2:cpu,memory:/z\n").size(), 1U);
}

TEST(MemoryFacts, PressureIsTheShortestAverageOfSomeTask) {
  EXPECT_EQ(memory_pressure("some avg10=12.34 avg60=0.00 avg300=0.00 total=5\nfull avg10=99.00\n"),
            1234U);
  EXPECT_EQ(memory_pressure("some avg10=0.05 avg60=1.00\n"), 5U);
  EXPECT_EQ(memory_pressure("some avg10=100.00\n"), 10'000U);
  EXPECT_EQ(memory_pressure("some avg10=7\n"), 700U);
  EXPECT_EQ(memory_pressure("some avg10=x\n"), std::nullopt);
  EXPECT_EQ(memory_pressure("full avg10=1.00\n"), std::nullopt);
  EXPECT_EQ(memory_pressure(""), std::nullopt);
}

TEST(MemoryFacts, BudgetIsOfTheTightestNestedGroupAndSaysHowItCame) {
  const MemoryBudget budget = memory_budget(
      1000 * kMiB, {group("max\n", mib(1)), group(mib(500), mib(100)), group(mib(450), mib(350))});
  EXPECT_EQ(budget.bytes, 100 * kMiB / 10 * 6);
  EXPECT_NE(budget.reason.find("MemAvailable 1000 MiB"), std::string::npos) << budget.reason;
  EXPECT_NE(budget.reason.find("allows 400 MiB"), std::string::npos) << budget.reason;
  EXPECT_NE(budget.reason.find("60 % of the least, 100 MiB"), std::string::npos) << budget.reason;
  EXPECT_EQ(memory_budget(std::nullopt, {group(mib(500), mib(100))}).bytes, 4ULL << 30U);
}

TEST(PressureGovernor, ShrinksUnderPressureAndNeverBelowAnEighth) {
  PressureGovernor governor(800);
  EXPECT_EQ(governor.on_sample(PressureGovernor::kHigh), 700U);
  std::uint64_t last = 700;
  for (int i = 0; i < 100; ++i) last = governor.on_sample(100'00).value_or(last);
  EXPECT_EQ(last, 100U);
  EXPECT_EQ(governor.on_sample(100'00), std::nullopt) << "nothing is said where nothing changes";
}

TEST(PressureGovernor, GivesBackSlowlyAndOnlyAfterARowOfCalmSamples) {
  PressureGovernor governor(800);
  EXPECT_EQ(governor.on_sample(50'00), 700U);
  for (unsigned i = 1; i < PressureGovernor::kCalmSamples; ++i)
    EXPECT_EQ(governor.on_sample(0), std::nullopt);
  EXPECT_EQ(governor.on_sample(5'00), std::nullopt) << "neither high nor calm: the row begins anew";
  for (unsigned i = 1; i < PressureGovernor::kCalmSamples; ++i)
    EXPECT_EQ(governor.on_sample(0), std::nullopt);
  EXPECT_EQ(governor.on_sample(PressureGovernor::kLow), 750U);
  for (unsigned i = 1; i < PressureGovernor::kCalmSamples; ++i)
    EXPECT_EQ(governor.on_sample(0), std::nullopt);
  EXPECT_EQ(governor.on_sample(0), 800U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(governor.on_sample(0), std::nullopt);
}

}  // namespace
}  // namespace tenzro::daemon
