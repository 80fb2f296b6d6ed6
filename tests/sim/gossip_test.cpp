// Gossip over many nodes: what one learns all learn, whatever is lost, and nobody is blamed for it.
#include <gtest/gtest.h>

#include "sim/gossip_world.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(GossipSim, TwoHundredNodesLearnOfANewHoldingWithinThreeHeartbeatsThoughATenthOfCallsIsLost) {
  GossipWorld world({.nodes = 200, .seed = 11, .loss_per_mille = 100});
  world.run_for(seconds(60));
  ASSERT_TRUE(world.views_are_equal());
  world.add_holding(150);
  world.run_for(milliseconds(200));
  ASSERT_LT(world.count_knowing(150), 199U);
  world.run_for(seconds(30) - milliseconds(200));
  EXPECT_EQ(world.count_knowing(150), 199U);
  EXPECT_EQ(world.downs(), 0U);
}

TEST(GossipSim, SteadyStateCostsAtMost64BytesASecondAKnownProviderANode) {
  GossipWorld world({.nodes = 100, .seed = 5, .loss_per_mille = 100});
  world.run_for(seconds(60));
  const std::uint64_t before = world.bytes_sent();
  world.run_for(seconds(60));
  const double rate = static_cast<double>(world.bytes_sent() - before) / 60 / 100 / 99;
  EXPECT_LE(rate, 64.0);
}

TEST(GossipSim, ChangedRecordCostsAtMostThreeTimesItsSizeANodeThatNeedsIt) {
  GossipWorld world({.nodes = 100, .seed = 6, .loss_per_mille = 100, .holdings = 200});
  world.run_for(seconds(60));
  const std::uint64_t before = world.record_bytes_sent();
  world.add_holding(40);
  world.run_for(seconds(30));
  ASSERT_EQ(world.count_knowing(40), 99U);
  const auto* peer = world.core(0).membership().find(world.address(40));
  EXPECT_LE(world.record_bytes_sent() - before, 3 * peer->sealed_record->size() * 99);
}

TEST(GossipSim, SameSeedSameTrace) {
  const auto trace = [](std::uint64_t seed) {
    GossipWorld world({.nodes = 20, .seed = seed, .loss_per_mille = 50});
    world.run_for(seconds(60));
    return world.trace();
  };
  EXPECT_EQ(trace(3), trace(3));
  EXPECT_NE(trace(3), trace(4));
}

TEST(GossipSim, DeadHolderLeavesEveryViewWithinTtlAndTwoHeartbeats) {
  GossipWorld world({.nodes = 30, .seed = 8, .loss_per_mille = 100});
  world.run_for(seconds(60));
  world.crash(7);
  world.run_for(seconds(50));
  for (std::size_t i = 0; i < world.size(); ++i) {
    if (i == 7) continue;
    EXPECT_EQ(world.core(i).membership().peers().size(), 28U) << i;
  }
  EXPECT_TRUE(world.views_are_equal());
  world.run_for(seconds(120));
  EXPECT_TRUE(world.views_are_equal());
}

TEST(GossipSim, GoodbyeEmptiesEveryViewWithinSeconds) {
  GossipWorld world({.nodes = 30, .seed = 9});
  world.run_for(seconds(60));
  world.leave(3);
  world.run_for(seconds(2));
  EXPECT_TRUE(world.core(3).has_left(world.now()));
  world.crash(3);
  world.run_for(seconds(3));
  EXPECT_TRUE(world.views_are_equal());
  world.run_for(seconds(120));
  EXPECT_TRUE(world.views_are_equal());
}

TEST(GossipSim, RestartedNodeIsKnownAgainAsOne) {
  GossipWorld world({.nodes = 20, .seed = 10});
  world.run_for(seconds(60));
  world.restart(5);
  world.add_holding(5);
  world.run_for(seconds(30));
  EXPECT_TRUE(world.views_are_equal());
}

TEST(GossipSim, NobodyIsCalledDownThoughAThirdOfCallsIsLost) {
  GossipWorld world({.nodes = 12, .seed = 12, .loss_per_mille = 300});
  world.run_for(seconds(300));
  EXPECT_EQ(world.downs(), 0U);
}

class GossipPartition : public ::testing::TestWithParam<std::uint64_t> {};

// Goal: after a partition of any length both sides agree again. Method: 32 seeds, random halves.
TEST_P(GossipPartition, ViewsAreEqualAfterAHealedPartition) {
  Prng prng(GetParam());
  GossipWorld world({.nodes = 16, .seed = GetParam(), .loss_per_mille = 50});
  world.run_for(seconds(40));
  std::vector<unsigned> groups;
  for (std::size_t i = 0; i < world.size(); ++i)
    groups.push_back(static_cast<unsigned>(prng.below(2)));
  world.partition(groups);
  world.run_for(seconds(static_cast<std::int64_t>(20 + prng.below(150))));
  world.add_holding(prng.below(world.size()));
  world.run_for(seconds(5));
  world.heal();
  world.run_for(seconds(60));
  EXPECT_TRUE(world.views_are_equal());
}

INSTANTIATE_TEST_SUITE_P(Seeds, GossipPartition, ::testing::Range<std::uint64_t>(1, 33));

}  // namespace
}  // namespace tenzro::testing
