// Meshes of repair cores: what is moved after a loss, a restart, a drain; and by whom.
#include <algorithm>

#include <gtest/gtest.h>

#include "sim/repair_world.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// 5 MB experts of a model of 384 x 58, two copies of each on twelve nodes: 111 GB a copy of the
/// model.
RepairWorld::Setup full_size() {
  RepairWorld::Setup setup;
  setup.layers = 58;
  setup.experts = 384;
  setup.repair.bytes_per_s = 50'000'000;
  return setup;
}

std::uint64_t admitted(const RepairWorld& world) {
  return world.watched().admitted;
}

void expect_sound(const RepairWorld& world) {
  EXPECT_EQ(world.watched().lost, 0U);
  EXPECT_EQ(world.watched().over_budget, 0U);
  EXPECT_EQ(world.watched().races, 0U);
}

TEST(RepairOfAFullSizeModel,
     AfterTheLossOfOneOfTwelveEachExpertHasItsCopiesAgainAndNoneEverLacksAll) {
  RepairWorld world(full_size());
  world.run_until(minutes(12));
  EXPECT_EQ(admitted(world), 0U);
  const std::uint64_t missing = world.held(3);
  world.crash(3);
  EXPECT_EQ(world.fewest_copies(), 1U);
  ASSERT_TRUE(world.run_until_replicated(2, minutes(40)));
  world.run_until(minutes(50));
  expect_sound(world);
  EXPECT_EQ(admitted(world), missing);
  EXPECT_EQ(world.most_copies(), 2U);
  // Down after 40 s, ten minutes of grace, a pass at most two later, then as fast as the rate
  // allows on eleven nodes.
  const Duration at_the_rate = seconds(missing * 5 / 50 / 11);
  EXPECT_LT(world.watched().last_admission,
            minutes(12) + seconds(40 + 600 + 120) + at_the_rate * 2 + seconds(30));
}

TEST(RepairOfAFullSizeModel, HalfTheMeshMayRestartAndNothingMoves) {
  RepairWorld world(full_size());
  world.run_until(minutes(12));
  for (std::size_t node = 0; node < 6; ++node) world.crash(node);
  world.run_until(minutes(12) + seconds(50));
  for (std::size_t node = 0; node < 6; ++node) {
    world.run_until(minutes(13) + seconds(60) * static_cast<std::int64_t>(node));
    world.come_back(node);
  }
  world.run_until(minutes(40));
  EXPECT_EQ(world.watched().fetches, 0U);
  EXPECT_EQ(world.fewest_copies(), 2U);
}

class SimulatedRepair : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  RepairWorld::Setup setup_ = [] {
    RepairWorld::Setup setup;
    setup.seed = GetParam();
    return setup;
  }();
};

TEST_P(SimulatedRepair, InPassesOfTwoIsExactEvenWhereViewsDiffer) {
  setup_.news_max = seconds(10);
  setup_.experts = 96;
  RepairWorld world(setup_);
  world.run_until(minutes(12));
  const std::uint64_t missing = world.held(5);
  world.crash(5);
  // The first pass of each after the grace of the lost one: eleven nodes, two each.
  world.run_until(minutes(25));
  EXPECT_GT(admitted(world), 0U);
  EXPECT_LE(admitted(world), 2U * 11);
  ASSERT_TRUE(world.run_until_replicated(2, minutes(60)));
  world.run_until(minutes(90));
  expect_sound(world);
  EXPECT_EQ(admitted(world), missing);
}

TEST_P(SimulatedRepair, SecondLossDuringTheFirstIsRepairedToo) {
  setup_.replication = 3;
  setup_.repair.policy.min_replication = 3;
  RepairWorld world(setup_);
  world.run_until(minutes(12));
  world.crash(1);
  world.run_until(minutes(25));
  world.crash(2);
  ASSERT_TRUE(world.run_until_replicated(3, minutes(120)));
  expect_sound(world);
  EXPECT_LE(world.most_copies(), 4U);
}

TEST_P(SimulatedRepair, BrokenWinnerDoesNotBlockAndNobodyFloods) {
  RepairWorld world(setup_);
  world.broken = {4};
  world.run_until(minutes(12));
  const std::uint64_t missing = world.held(5);
  const std::size_t held = world.held(4);
  world.crash(5);
  ASSERT_TRUE(world.run_until_replicated(2, minutes(90)));
  EXPECT_EQ(world.held(4), held);
  EXPECT_EQ(admitted(world), missing);
  EXPECT_EQ(world.watched().over_budget, 0U);
}

TEST_P(SimulatedRepair, NobodyTakesMoreThanItsBudgetAndTheOthersTakeItInstead) {
  setup_.spare_bytes = setup_.expert_bytes * 3;
  setup_.experts = 96;
  RepairWorld world(setup_);
  world.run_until(minutes(12));
  const std::uint64_t missing = world.held(5);
  world.crash(5);
  world.run_until(minutes(120));
  for (std::size_t node = 0; node < 12; ++node)
    EXPECT_LE(world.held_bytes(node), world.budget(node));
  EXPECT_EQ(world.watched().over_budget, 0U);
  ASSERT_GT(missing, 11U * 3);
  EXPECT_EQ(admitted(world), 11U * 3);
}

TEST_P(SimulatedRepair, HalfTheMeshRestartsOneAfterAnotherOrAtOnceAndNothingMoves) {
  RepairWorld world(setup_);
  Prng prng(GetParam());
  world.run_until(minutes(12));
  std::vector<std::pair<Duration, std::size_t>> returns;
  for (std::size_t node = 0; node < 6; ++node) {
    world.run_until(world.now().since_start + seconds(prng.below(20)));
    world.crash(node);
    returns.emplace_back(world.now().since_start + seconds(125 + prng.below(300)), node);
  }
  std::sort(returns.begin(), returns.end());
  for (const auto& [time, node] : returns) {
    world.run_until(time);
    world.come_back(node);
  }
  world.run_until(minutes(60));
  EXPECT_EQ(world.watched().fetches, 0U);
  EXPECT_EQ(world.watched().dropped, 0U);
}

TEST_P(SimulatedRepair, DrainMovesWhatOneNodeAloneHoldsAndNothingElse) {
  setup_.replication = 1;
  setup_.repair.policy.min_replication = 1;
  setup_.nodes = 6;
  RepairWorld world(setup_);
  world.run_until(minutes(12));
  const std::size_t alone = world.held(2);
  world.set_draining(2);
  world.run_until(minutes(12) + seconds(60));
  EXPECT_GT(admitted(world), 0U);  // it does not wait for the next pass
  world.run_until(minutes(30));
  EXPECT_EQ(admitted(world), alone);
  EXPECT_EQ(world.watched().races, 0U);
  world.crash(2);
  EXPECT_EQ(world.watched().lost, 0U);
  EXPECT_EQ(world.fewest_copies(), 1U);
}

TEST_P(SimulatedRepair, FreshNodesThatOptedInHelpAndOthersDoNot) {
  setup_.nodes = 8;
  setup_.holders = 6;
  setup_.tune = [](std::size_t node, repair::Options& options) {
    if (node == 6) options.models = {"model"};
  };
  RepairWorld world(setup_);
  world.run_until(minutes(12));
  world.crash(1);
  ASSERT_TRUE(world.run_until_replicated(2, minutes(60)));
  EXPECT_GT(world.held(6), 0U);
  EXPECT_EQ(world.held(7), 0U);
  expect_sound(world);
}

TEST_P(SimulatedRepair, SurplusGoesDownToTheMaximumAndNoFurther) {
  setup_.nodes = 6;
  setup_.replication = 5;
  setup_.experts = 6;
  setup_.layers = 1;
  setup_.repair.policy.max_replication = 3;
  RepairWorld world(setup_);
  ASSERT_GT(world.fewest_copies(), 3U);
  world.run_until(minutes(90));
  EXPECT_EQ(world.most_copies(), 3U);
  EXPECT_EQ(world.fewest_copies(), 3U);
  EXPECT_EQ(world.watched().fetches, 0U);
}

TEST_P(SimulatedRepair, ReturnOfThoseThatWereReplacedMovesNothingMore) {
  setup_.nodes = 8;
  RepairWorld world(setup_);
  world.run_until(minutes(12));
  const std::set<std::size_t> gone{0, 1};
  for (const std::size_t node : gone) world.crash(node);
  world.run_until(minutes(60));
  const std::uint64_t before = world.watched().fetches;
  EXPECT_GT(before, 0U);
  for (const std::size_t node : gone) world.come_back(node);
  world.run_until(minutes(120));
  EXPECT_EQ(world.watched().fetches, before);
  EXPECT_EQ(world.watched().dropped, 0U);  // more than the floor is no harm, up to the maximum
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulatedRepair, ::testing::Range<std::uint64_t>(1, 7));

}  // namespace
}  // namespace tenzro::testing
