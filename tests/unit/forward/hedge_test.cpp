// A slow holder: who is asked beside it, and when nobody is.
#include <gtest/gtest.h>

#include "scripted_mesh.hpp"

namespace tenzro::forward {
namespace {

using std::chrono::milliseconds;

TEST(Hedge, LateCallGoesToTheStandbyAndTheLoserIsCancelled) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0});
  mesh.fly(mesh.request(), {{0}});
  mesh.advance(milliseconds(49));
  EXPECT_EQ(mesh.sent().size(), 1U);
  mesh.advance(milliseconds(1));  // a holder nobody measured is late after 50 ms
  ASSERT_EQ(mesh.sent().size(), 2U);
  EXPECT_NE(mesh.holder_of(0), mesh.holder_of(1));
  EXPECT_FALSE(mesh.sent()[0].is_cancelled);
  mesh.answer(1);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_TRUE(mesh.sent()[0].is_cancelled);
  EXPECT_EQ((*mesh.outcome())->tally.hedges, 1U);
  EXPECT_EQ((*mesh.outcome())->tally.iroh, 1U);
  EXPECT_EQ(mesh.duplicates(), 0U);
  const ledger::Standing* slow = mesh.standings().find(address(mesh.holder_of(0)));
  EXPECT_EQ(slow->streak, 0U) << "slow is not failed";
  EXPECT_TRUE(slow->service.is_stalled());
}

TEST(Hedge, PrimaryThatAnswersAfterAllWins) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0});
  mesh.fly(mesh.request(), {{0}});
  mesh.advance(milliseconds(50));
  mesh.answer(0);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_TRUE(mesh.sent()[1].is_cancelled);
  EXPECT_FALSE(mesh.standings().find(address(mesh.holder_of(1)))->service.is_stalled());
}

TEST(Hedge, DelayIsTwiceTheMeasuredTailWithinItsBounds) {
  const std::pair<Duration, Duration> cases[] = {
      {milliseconds(1), milliseconds(5)},       // too fast to tell
      {milliseconds(40), milliseconds(80)},     // twice the tail
      {milliseconds(3000), milliseconds(1000)}  // nobody waits longer
  };
  for (const auto& [took, delay] : cases) {
    ScriptedMesh mesh;
    mesh.hold(1, {0});
    mesh.hold(2, {0}, {.is_warm = false});
    mesh.measure(1, took);
    Request request = mesh.request();
    request.allow_cold = true;
    mesh.fly(request, {{0}});
    ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1}));
    mesh.advance(delay - milliseconds(1));
    EXPECT_EQ(mesh.sent().size(), 1U) << took.count();
    mesh.advance(milliseconds(1));
    EXPECT_EQ(mesh.sent().size(), 2U) << took.count();
  }
}

TEST(Hedge, OnlyPartsThatAreStillOpenAreAskedForTwice) {
  ScriptedMesh mesh;
  mesh.hold(1, {0}, {.speaks_exec = false});
  mesh.hold(2, {1}, {.speaks_exec = false});
  mesh.hold(3, {0, 1}, {.is_warm = false});
  Request request = mesh.request();
  request.allow_cold = true;
  mesh.fly(request, {{0, 1}});
  mesh.answer(0);
  mesh.advance(milliseconds(50));
  ASSERT_EQ(mesh.sent().size(), 3U);
  EXPECT_EQ(mesh.sent()[2].call->batches.size(), 1U);
  EXPECT_EQ(mesh.sent()[2].call->batches[0].expert, 1U);
}

TEST(Hedge, ExtraWorkStaysWithinItsBudget) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0});
  std::size_t hedges = 0;
  constexpr std::size_t kForwards = 400;
  for (std::size_t i = 0; i < kForwards; ++i) {
    const std::size_t before = mesh.sent().size();
    mesh.fly(mesh.request(), {{0}});
    // Every fifth is late by any holder's measure, and none so late that it is given up.
    mesh.advance(milliseconds(i % 5 == 4 ? 45 : 2));
    hedges += mesh.sent().size() - before - 1;
    mesh.answer(before);
  }
  EXPECT_GT(hedges, 0U);
  EXPECT_LE(hedges, kForwards / 20 + 2);
}

TEST(Hedge, SilenceFarBeyondTheUsualMovesTheCallWithoutABudget) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0});
  for (int i = 0; i < 8; ++i) {  // both are measured, and the budget is as good as spent
    mesh.fly(mesh.request(), {{0}});
    mesh.advance(milliseconds(3));
    mesh.answer(mesh.sent().size() - 1);
  }
  mesh.fly(mesh.request(), {{0}});
  const std::size_t silent = mesh.sent().size() - 1;
  mesh.advance(milliseconds(60));
  ASSERT_GE(mesh.sent().size(), silent + 2);
  EXPECT_NE(mesh.holder_of(mesh.sent().size() - 1), mesh.holder_of(silent));
  mesh.answer(mesh.sent().size() - 1);
  // Until it answers, the silent one is taken last.
  const std::uint8_t was_silent = mesh.holder_of(silent);
  for (int i = 0; i < 4; ++i) {
    mesh.fly(mesh.request(), {{0}});
    EXPECT_NE(mesh.holder_of(mesh.sent().size() - 1), was_silent);
    mesh.answer(mesh.sent().size() - 1);
  }
}

TEST(Hedge, NoneWhileTheWholeMeshIsSlow) {
  ScriptedMesh mesh;
  for (std::uint8_t holder = 1; holder <= 4; ++holder)
    mesh.hold(holder, {static_cast<ExpertIndex>(holder - 1)});
  mesh.hold(5, {0, 1, 2, 3}, {.is_warm = false});
  Request request = mesh.request();
  request.allow_cold = true;
  mesh.fly(request, {{0, 1, 2, 3}});
  ASSERT_EQ(mesh.sent().size(), 4U);
  mesh.advance(milliseconds(50));
  EXPECT_EQ(mesh.sent().size(), 4U);
}

TEST(Hedge, FailedHedgeLeavesThePrimaryAlone) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0});
  mesh.fly(mesh.request(), {{0}});
  mesh.advance(milliseconds(50));
  ASSERT_EQ(mesh.sent().size(), 2U);
  mesh.lose(1);
  EXPECT_EQ(mesh.sent().size(), 2U);
  EXPECT_FALSE(mesh.outcome().has_value());
  mesh.answer(0);
  EXPECT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
}

TEST(Hedge, SwitchedOffItNeverHappens) {
  ScriptedMesh mesh({.limits = {.hedges = false}});
  mesh.hold(1, {0});
  mesh.hold(2, {0});
  mesh.fly(mesh.request(), {{0}});
  mesh.advance(milliseconds(4000));
  EXPECT_EQ(mesh.sent().size(), 1U);
}

}  // namespace
}  // namespace tenzro::forward
