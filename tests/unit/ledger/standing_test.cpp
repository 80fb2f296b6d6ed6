#include "tenzro/ledger/standing.hpp"

#include <gtest/gtest.h>

namespace tenzro::ledger {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Instant kStart{seconds(100)};

ProviderAddress address(std::uint8_t number) {
  ProviderAddress address{};
  address[0] = number;
  return address;
}

void fail_once(Standings& standings, Instant now, std::uint8_t provider, Failure failure) {
  standings.on_failed(now, standings.on_begun(now, address(provider), 1), failure);
}

void answer_once(Standings& standings, Instant now, std::uint8_t provider) {
  standings.on_answered(now, standings.on_begun(now, address(provider), 1), now + milliseconds(1));
}

/// Used often enough that one lost peer is not half of all.
void use_others(Standings& standings, Instant now) {
  for (std::uint8_t provider = 100; provider < 110; ++provider)
    answer_once(standings, now, provider);
}

TEST(Standings, FailuresCostReputationByTheirKindAndNeverBelowZero) {
  Standings standings({.reputation_start = 30});
  use_others(standings, kStart);
  fail_once(standings, kStart, 1, Failure::refused);
  EXPECT_EQ(standings.find(address(1))->reputation, 25U);
  fail_once(standings, kStart, 1, Failure::lied);
  EXPECT_EQ(standings.find(address(1))->reputation, 10U);
  fail_once(standings, kStart, 1, Failure::lost);
  EXPECT_EQ(standings.find(address(1))->reputation, 0U);
  EXPECT_EQ(Standings({}).find(address(1)), nullptr);
}

TEST(Standings, ThreeStreamFailuresInARowMeanFiveMinutesOfQuarantine) {
  Standings standings({});
  use_others(standings, kStart);
  fail_once(standings, kStart, 1, Failure::lied);
  fail_once(standings, kStart, 1, Failure::lied);
  fail_once(standings, kStart, 1, Failure::refused);  // does not count, does not clear
  EXPECT_FALSE(standings.is_quarantined(kStart, address(1)));
  fail_once(standings, kStart, 1, Failure::lied);
  EXPECT_TRUE(standings.is_quarantined(kStart, address(1)));
  EXPECT_TRUE(standings.is_quarantined(kStart + seconds(299), address(1)));
  EXPECT_FALSE(standings.is_quarantined(kStart + minutes(5), address(1)));
}

TEST(Standings, AnAnswerClearsStreakAndQuarantineButEarnsNothing) {
  Standings standings({.reputation_start = 100});
  for (int i = 0; i < 3; ++i) fail_once(standings, kStart, 1, Failure::lied);
  ASSERT_TRUE(standings.is_quarantined(kStart, address(1)));
  answer_once(standings, kStart, 1);
  EXPECT_FALSE(standings.is_quarantined(kStart, address(1)));
  EXPECT_EQ(standings.find(address(1))->streak, 0U);
  EXPECT_EQ(standings.find(address(1))->reputation, 55U);
}

TEST(Standings, BusyIsNoFailureAndIsOverWhenItSaid) {
  Standings standings({.reputation_start = 100});
  const OpenCall open = standings.on_begun(kStart, address(1), 1);
  standings.on_busy(kStart, open, seconds(2));
  EXPECT_EQ(standings.find(address(1))->reputation, 100U);
  EXPECT_EQ(standings.find(address(1))->in_flight, 0U);
  EXPECT_TRUE(standings.is_busy(kStart + milliseconds(1999), address(1)));
  EXPECT_FALSE(standings.is_busy(kStart + seconds(2), address(1)));
}

TEST(Standings, WhenManyAreLostAtOnceThisNodeSuspectsItselfAndGivesBack) {
  Standings standings({.reputation_start = 100});
  for (std::uint8_t peer = 1; peer <= 4; ++peer) answer_once(standings, kStart, peer);
  fail_once(standings, kStart, 1, Failure::lost);
  fail_once(standings, kStart, 2, Failure::lost);
  EXPECT_EQ(standings.find(address(1))->reputation, 85U);
  EXPECT_FALSE(standings.suspects_itself(kStart));
  fail_once(standings, kStart + seconds(1), 3, Failure::lost);
  EXPECT_TRUE(standings.suspects_itself(kStart + seconds(1)));
  for (std::uint8_t peer = 1; peer <= 3; ++peer) {
    EXPECT_EQ(standings.find(address(peer))->reputation, 100U);
    EXPECT_EQ(standings.find(address(peer))->streak, 0U);
  }
  for (int i = 0; i < 5; ++i) fail_once(standings, kStart + seconds(2), 4, Failure::lost);
  EXPECT_EQ(standings.find(address(4))->reputation, 100U);
  EXPECT_FALSE(standings.is_quarantined(kStart + seconds(2), address(4)));
}

TEST(Standings, SelfSuspicionDoesNotExcuseALie) {
  Standings standings({.reputation_start = 100});
  for (std::uint8_t peer = 1; peer <= 3; ++peer) fail_once(standings, kStart, peer, Failure::lost);
  ASSERT_TRUE(standings.suspects_itself(kStart));
  fail_once(standings, kStart, 1, Failure::lied);
  EXPECT_EQ(standings.find(address(1))->reputation, 85U);
}

TEST(Standings, FewLostAmongManyUsedAreTheirOwnFault) {
  Standings standings({.reputation_start = 100});
  use_others(standings, kStart);
  for (std::uint8_t peer = 1; peer <= 4; ++peer) fail_once(standings, kStart, peer, Failure::lost);
  EXPECT_FALSE(standings.suspects_itself(kStart));
  EXPECT_EQ(standings.find(address(4))->reputation, 85U);
}

TEST(Standings, LossesFarApartNeverAddUpToSelfSuspicion) {
  Standings standings({.reputation_start = 100});
  for (std::uint8_t peer = 1; peer <= 6; ++peer) {
    const Instant now = kStart + seconds(11) * static_cast<int>(peer);
    fail_once(standings, now, peer, Failure::lost);
    EXPECT_FALSE(standings.suspects_itself(now));
    EXPECT_EQ(standings.find(address(peer))->reputation, 85U);
  }
}

TEST(Standings, LoadGrowsWithCallsInFlightAndMeasuredTime) {
  Standings standings({});
  EXPECT_EQ(standings.load(kStart, address(9), 1), 1U) << "an unknown holder is tried";
  answer_once(standings, kStart, 1);
  const std::uint64_t idle = standings.load(kStart, address(1), 1);
  EXPECT_NEAR(static_cast<double>(idle), 1000, 2);
  const OpenCall open = standings.on_begun(kStart, address(1), 1);
  EXPECT_EQ(standings.load(kStart, address(1), 1), 2 * idle);
  standings.on_abandoned(kStart, open);
  EXPECT_EQ(standings.load(kStart, address(1), 1), idle);
}

TEST(Standings, UntriedHolderThatWasLostIsNotTheLightest) {
  Standings standings({});
  answer_once(standings, kStart, 1);
  fail_once(standings, kStart, 2, Failure::lost);
  EXPECT_GT(standings.load(kStart, address(2), 1), standings.load(kStart, address(1), 1));
}

TEST(Standings, BeyondItsCapTheLongestUnusedIsForgottenButNoneWithACall) {
  Standings standings({.providers_max = 3});
  const OpenCall open = standings.on_begun(kStart, address(1), 1);
  answer_once(standings, kStart + seconds(1), 2);
  answer_once(standings, kStart + seconds(2), 3);
  answer_once(standings, kStart + seconds(3), 4);
  EXPECT_EQ(standings.size(), 3U);
  EXPECT_NE(standings.find(address(1)), nullptr);
  EXPECT_EQ(standings.find(address(2)), nullptr);
  standings.on_abandoned(kStart, open);
  // An end for one that was forgotten is nothing.
  standings.on_failed(kStart, {.provider = address(2)}, Failure::lost);
}

TEST(Standings, HedgesArePaidFromOneRowInTwenty) {
  Standings standings({});
  EXPECT_TRUE(standings.try_hedge(kStart, 8));
  EXPECT_FALSE(standings.try_hedge(kStart, 8)) << "one call ahead";
  for (int i = 0; i < 19; ++i) {
    const OpenCall open = standings.on_begun(kStart, address(1), 8);
    standings.on_answered(kStart, open, kStart);
  }
  EXPECT_FALSE(standings.try_hedge(kStart, 8));
  const OpenCall open = standings.on_begun(kStart, address(1), 8);
  standings.on_answered(kStart, open, kStart);
  EXPECT_TRUE(standings.try_hedge(kStart, 8));
}

}  // namespace
}  // namespace tenzro::ledger
