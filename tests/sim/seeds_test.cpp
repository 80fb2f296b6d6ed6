// The fixed seeds of chaos. Replay one: mesh_sim --gtest_filter=*Chaos*/SEED.
#include <gtest/gtest.h>

#include "sim/chaos.hpp"

namespace tenzro::testing {
namespace {

class MeshChaos : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(MeshChaos, AnswersKeepTheirBitsOrFailAndTheMeshHeals) {
  const ChaosOutcome outcome = run_chaos({.seed = GetParam(), .reset_per_mille = 10});
  EXPECT_GT(outcome.served, 0U);
}

// Each expert keeps one holder that nothing happens to: then nothing may happen to the client.
TEST_P(MeshChaos, NoForwardFailsWhileEveryExpertKeepsOneHealthyHolder) {
  const ChaosOutcome outcome = run_chaos({.seed = GetParam(), .victims = 2});
  EXPECT_EQ(outcome.served, kChaosForwards) << "seed " << GetParam() << ", " << outcome.last_error;
}

INSTANTIATE_TEST_SUITE_P(Seeds, MeshChaos, ::testing::Range<std::uint64_t>(1, 33));

TEST(MeshDeterminism, SameSeedGivesTheSameTrace) {
  const Chaos chaos{.seed = 7, .reset_per_mille = 10};
  EXPECT_EQ(run_chaos(chaos).trace, run_chaos(chaos).trace);
}

}  // namespace
}  // namespace tenzro::testing
