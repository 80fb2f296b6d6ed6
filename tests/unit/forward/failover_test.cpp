// Who is asked next when a holder fails, and what stays.
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"

#include "scripted_mesh.hpp"

namespace tenzro::forward {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<ExpertIndex> experts_of(const work::RunExperts& job) {
  std::vector<ExpertIndex> experts;
  for (const auto& batch : job.batches) experts.push_back(batch.expert);
  return experts;
}

TEST(Failover, PartsOfAFailedCallGoToTheirStandbyAndTheRestStays) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {1});
  mesh.hold(3, {0}, {.is_warm = false});
  Request request = mesh.request();
  request.allow_cold = true;
  mesh.fly(request, {{0, 1}});
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1, 2}));
  mesh.answer(1);
  mesh.lose(0);
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1, 2, 3}));
  EXPECT_EQ(mesh.sent()[2].call->batches.size(), 1U);
  mesh.answer(2);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ((*mesh.outcome())->tally.replans, 0U) << "a standby is not a replan";
  EXPECT_EQ((*mesh.outcome())->tally.failovers, 1U);
  EXPECT_EQ(mesh.combined().size(), 2U);
  EXPECT_EQ(mesh.duplicates(), 0U);
}

TEST(Failover, WithoutAStandbyWhatFailedIsPlannedAgainWithoutThoseThatFailed) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0}, {.is_warm = false});  // only eligible once no warm one is left
  mesh.fly(mesh.request(), {{0}});
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1}));
  mesh.reject(0, ErrorCode::forbidden);
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1, 2}));
  mesh.answer(1);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ((*mesh.outcome())->tally.replans, 1U);
  EXPECT_EQ((*mesh.outcome())->tally.batches, 2U);
}

TEST(Failover, ProviderThatFailedWithOneExpertIsNotAskedForAnother) {
  ScriptedMesh mesh;
  mesh.hold(1, {0, 1});
  mesh.hold(2, {0, 1}, {.is_warm = false});
  mesh.hold(3, {1}, {.is_warm = false});
  mesh.fly(mesh.request(), {{0}, {1}});
  mesh.lose(0);  // both experts were there
  for (std::size_t i = 1; i < mesh.sent().size(); ++i) EXPECT_NE(mesh.holder_of(i), 1);
  for (std::size_t i = 1; i < mesh.sent().size(); ++i) mesh.answer(i);
  EXPECT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
}

TEST(Failover, HolderThatQuicLostIsAskedOverHttpWhereNobodyElseIsLeft) {
  ScriptedMesh mesh;
  mesh.hold(1, {0, 1}, {.has_http_too = true});
  mesh.hold(2, {0}, {.is_warm = false});
  Request request = mesh.request();
  request.allow_cold = true;
  mesh.fly(request, {{0, 1}});
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1}));
  mesh.lose(0);
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1, 2, 1}));
  const work::RemoteCall& again = *mesh.sent()[2].call;
  EXPECT_EQ(again.transport, work::Transport::http);
  EXPECT_EQ(again.batches.at(0).expert, 1U) << "expert 0 has another holder";
  EXPECT_EQ(mesh.sent()[1].call->transport, work::Transport::exec);
  mesh.answer(1);
  mesh.answer(2);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ((*mesh.outcome())->tally.http, 1U);
  EXPECT_EQ((*mesh.outcome())->tally.iroh, 1U);
  EXPECT_EQ(mesh.combined().size(), 2U);
}

TEST(Failover, HttpIsTriedOnceAndOnlyAfterALossOfTheConnection) {
  ScriptedMesh lost;
  lost.hold(1, {0}, {.has_http_too = true});
  lost.fly(lost.request(), {{0}});
  lost.lose(0);
  ASSERT_EQ(lost.sent().size(), 2U);
  EXPECT_EQ(lost.sent()[1].call->transport, work::Transport::http);
  lost.lose(1);
  EXPECT_EQ(lost.sent().size(), 2U);
  ASSERT_TRUE(lost.outcome().has_value());
  EXPECT_FALSE(lost.outcome()->has_value());

  ScriptedMesh lied;
  lied.hold(1, {0}, {.has_http_too = true});
  lied.fly(lied.request(), {{0}});
  lied.reject(0, ErrorCode::forbidden);
  EXPECT_EQ(lied.sent().size(), 1U);
  ASSERT_TRUE(lied.outcome().has_value());
  EXPECT_FALSE(lied.outcome()->has_value());
}

TEST(Failover, WhenAllHaveFailedTheLastHoldersErrorIsTheAnswer) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.fly(mesh.request(), {{0}});
  mesh.reject(0, ErrorCode::runtime, "expert disk tier I/O error: gone");
  ASSERT_TRUE(mesh.outcome().has_value());
  EXPECT_EQ(mesh.outcome()->error().code, ErrorCode::runtime);
  EXPECT_EQ(mesh.outcome()->error().message(),
            "expert l3/e0 holder error: expert disk tier I/O error: gone (holder " +
                to_hex(address(1)) + ")");
  EXPECT_EQ(mesh.finished(), 1U);
}

TEST(Failover, BadReceiptIsTheHoldersFaultAndNotTheCallers) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.fly(mesh.request(), {{0}});
  mesh.reject(0, ErrorCode::forbidden, "bad signature");
  EXPECT_EQ(mesh.outcome()->error().code, ErrorCode::runtime);
  EXPECT_EQ(mesh.standings().find(address(1))->streak, 1U);
}

TEST(Failover, RefusedCallBringsNobodyNearerToQuarantineAndAnotherKeyDoes) {
  const auto streak_after = [](ErrorCode code) {
    ScriptedMesh mesh;
    mesh.hold(1, {0});
    mesh.fly(mesh.request(), {{0}});
    mesh.lose(0, code);
    EXPECT_FALSE(mesh.outcome()->has_value());
    return mesh.standings().find(address(1))->streak;
  };
  EXPECT_EQ(streak_after(ErrorCode::runtime), 0U);
  EXPECT_EQ(streak_after(ErrorCode::forbidden), 1U);
}

TEST(Failover, ReplansEndAfterTheirMaximum) {
  ScriptedMesh mesh({.limits = {.replans_max = 2}});
  // Each replan finds one newcomer, declared after the plan before was made.
  mesh.hold(1, {0});
  mesh.fly(mesh.request(), {{0}});
  for (std::uint8_t round = 0; round < 3; ++round) {
    ASSERT_EQ(mesh.sent().size(), round + 1U);
    mesh.hold(static_cast<std::uint8_t>(round + 2), {0});
    mesh.lose(round);
  }
  EXPECT_EQ(mesh.sent().size(), 3U);
  ASSERT_TRUE(mesh.outcome().has_value());
  EXPECT_FALSE(mesh.outcome()->has_value());
  EXPECT_EQ(mesh.flight().tally().replans, 2U);
}

TEST(Failover, PartialForwardListsWhatNobodyCouldServe) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {1});
  Request request = mesh.request();
  request.allow_partial = true;
  mesh.fly(request, {{0, 1}, {0, 1}});
  mesh.lose(1);
  mesh.answer(0);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  ASSERT_EQ((*mesh.outcome())->missing.size(), 1U);
  EXPECT_EQ((*mesh.outcome())->missing[0].tokens, (std::vector<std::uint32_t>{0, 1}));
}

TEST(Failover, SilentHolderIsLostAfterTheAttemptsTime) {
  ScriptedMesh mesh({.limits = {.hedges = false}});
  mesh.hold(1, {0});
  mesh.hold(2, {0}, {.is_warm = false});
  mesh.fly(mesh.request(), {{0}});
  mesh.advance(milliseconds(4999));
  EXPECT_EQ(mesh.sent().size(), 1U);
  mesh.advance(milliseconds(1));
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1, 2}));
  EXPECT_TRUE(mesh.sent()[0].is_cancelled);
  EXPECT_EQ(mesh.standings().find(address(1))->streak, 1U);
  mesh.answer_late(0);  // ignored: its attempt is over
  EXPECT_FALSE(mesh.outcome().has_value());
  mesh.answer(1);
  EXPECT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ(mesh.duplicates(), 0U);
}

TEST(Failover, LocalFailureSendsTheExpertElsewhere) {
  ScriptedMesh mesh;
  mesh.hold(kSelf, {0});
  mesh.hold(1, {0});
  mesh.fly(mesh.request(), {{0}});
  EXPECT_TRUE(mesh.sent().empty());
  mesh.fail_local({ErrorCode::runtime, "", "expert disk tier I/O error: gone"});
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1}));
  mesh.answer(0);
  EXPECT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
}

TEST(Failover, ExpertThatRunsFromDiskFailsAloneAndWhatIsInMemoryIsServed) {
  ScriptedMesh mesh;
  mesh.hold(kSelf, {0, 1, 2, 3});
  mesh.hold(1, {1, 3});
  mesh.stream({1, 3});
  mesh.fly(mesh.request(), {{0, 1}, {2, 3}});
  mesh.start_local();
  ASSERT_EQ(mesh.local_runs().size(), 3U);
  EXPECT_EQ(experts_of(mesh.local_runs()[0]), (std::vector<ExpertIndex>{0, 2}))
      << "first what waits for no disk";
  EXPECT_EQ(experts_of(mesh.local_runs()[1]), (std::vector<ExpertIndex>{1}));
  EXPECT_EQ(experts_of(mesh.local_runs()[2]), (std::vector<ExpertIndex>{3}));
  mesh.finish_local(1, Error{ErrorCode::runtime, "", "expert disk tier I/O error: gone"});
  mesh.finish_local(0);
  mesh.finish_local(0);
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1}));
  mesh.answer(0);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ(mesh.combined().size(), 4U);
}

TEST(Failover, HolderThatLeftSinceThePlanIsPassedOver) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0}, {.is_warm = false});
  mesh.hold(3, {0}, {.is_warm = false});
  Request request = mesh.request();
  request.allow_cold = true;
  mesh.fly(request, {{0}});
  mesh.view().remove_provider(address(2));
  mesh.lose(0);
  EXPECT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1, 3}));
}

// Whatever fails, in whatever order things come: one end, every pair once, nothing left in flight.
TEST(Failover, RandomFaultsNeverLoseOrDoubleAPair) {
  std::size_t served = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Prng prng(seed);
    ScriptedMesh mesh;
    for (std::uint8_t holder = 1; holder <= 5; ++holder) {
      std::vector<ExpertIndex> held;
      for (ExpertIndex e = 0; e < 8; ++e) {
        if (prng.below(2) == 0) held.push_back(e);
      }
      mesh.hold(holder, held, {.is_warm = prng.below(3) != 0, .speaks_exec = prng.below(3) != 0});
    }
    mesh.fly(mesh.request(), {{0, 3, 5}, {1, 3, 7}, {2, 4, 6}});
    for (std::size_t step = 0; step < 500 && !mesh.outcome(); ++step) {
      std::vector<std::size_t> open;
      for (std::size_t i = 0; i < mesh.sent().size(); ++i) {
        if (!mesh.sent()[i].is_over && !mesh.sent()[i].is_cancelled) open.push_back(i);
      }
      const std::uint64_t what = prng.below(8);
      if (open.empty() || what == 0) {
        mesh.step();
        continue;
      }
      const std::size_t pick = open[prng.below(open.size())];
      if (what == 1)
        mesh.lose(pick);
      else if (what == 2)
        mesh.reject(pick, ErrorCode::forbidden);
      else if (what == 3)
        mesh.reject(pick, ErrorCode::busy);
      else
        mesh.answer(pick);
    }
    ASSERT_TRUE(mesh.outcome().has_value()) << "seed " << seed;
    EXPECT_EQ(mesh.finished(), 1U) << "seed " << seed;
    EXPECT_EQ(mesh.duplicates(), 0U) << "seed " << seed;
    if (mesh.outcome()->has_value()) {
      ++served;
      EXPECT_EQ(mesh.combined().size(), 9U) << "seed " << seed;
      for (const auto& [pair, value] : mesh.combined())
        EXPECT_EQ(value, float(pair.first * 1000 + pair.second));
    }
    for (std::uint8_t holder = 1; holder <= 5; ++holder) {
      const ledger::Standing* standing = mesh.standings().find(address(holder));
      if (standing == nullptr) continue;
      EXPECT_EQ(standing->in_flight, 0U) << "seed " << seed;
      EXPECT_EQ(standing->late, 0U) << "seed " << seed;
    }
  }
  EXPECT_GT(served, 100U);
}

}  // namespace
}  // namespace tenzro::forward
