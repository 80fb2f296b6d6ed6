// The order in which residents give way, against exact least-recently-used and the best fixed
// choice.
#include "tenzro/holder/retention.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

#include "support/cache_trace.hpp"

namespace tenzro::holder {
namespace {

using testing::CacheTrace;
using testing::naive_lru_hits;
using testing::oracle_static_hits;
using testing::retention_hits;

constexpr std::size_t kUses = 200'000;
constexpr std::uint32_t kExperts = 2000;
constexpr testing::ReplayShape kReplay{.layers = 12, .per_layer = 128, .top_k = 4};
/// How much worse than least-recently-used any trace may fare.
constexpr double kLossMax = 0.02;

std::optional<ItemId> anyone(const Retention& retention) {
  return retention.victim([](ItemId) { return true; });
}

TEST(Retention, OfEquallyUsedItemsTheLeastRecentlyUsedGoesFirst) {
  Retention retention(3);
  for (const std::uint32_t i : {0U, 1U, 2U}) {
    retention.on_use(ItemId{i}, 1);
    retention.on_enter(ItemId{i});
  }
  EXPECT_EQ(anyone(retention), ItemId{0});
  retention.on_use(ItemId{0}, 1);
  EXPECT_EQ(anyone(retention), ItemId{1});
}

TEST(Retention, NewcomerUsedOnceIsTheFirstToGoAgain) {
  Retention retention(2);
  for (const std::uint32_t i : {0U, 1U}) {
    retention.on_use(ItemId{i}, 1);
    retention.on_enter(ItemId{i});
  }
  retention.on_leave(ItemId{0});
  retention.on_use(ItemId{2}, 1);
  retention.on_enter(ItemId{2});
  EXPECT_EQ(anyone(retention), ItemId{2});
}

TEST(Retention, WhatTheOwnerUsesIsPassedOver) {
  Retention retention(2);
  for (const std::uint32_t i : {0U, 1U}) {
    retention.on_use(ItemId{i}, 1);
    retention.on_enter(ItemId{i});
  }
  EXPECT_EQ(retention.victim([](ItemId id) { return id != ItemId{0}; }), ItemId{1});
  EXPECT_EQ(retention.victim([](ItemId) { return false; }), std::nullopt);
}

TEST(Retention, ForgottenNumberBeginsAnew) {
  Retention retention(2);
  for (int i = 0; i < 9; ++i) retention.on_use(ItemId{0}, 1);
  retention.on_enter(ItemId{0});
  retention.forget(ItemId{0});
  EXPECT_EQ(anyone(retention), std::nullopt);
  for (const std::uint32_t i : {1U, 0U}) {
    retention.on_use(ItemId{i}, 1);
    retention.on_enter(ItemId{i});
  }
  retention.on_use(ItemId{1}, 1);
  EXPECT_EQ(anyone(retention), ItemId{0}) << "its nine uses are forgotten";
}

TEST(Retention, ZipfComesNearTheBestFixedChoiceEvenFromCold) {
  const CacheTrace trace = testing::zipf_trace(kExperts, kUses, 3);
  EXPECT_GE(retention_hits(trace, kExperts / 2), 0.97 * oracle_static_hits(trace, kExperts / 2));
}

TEST(Retention, ScanTakesNothingFromTheFavourites) {
  const CacheTrace trace = testing::scan_trace(kExperts, kUses, 4);
  EXPECT_GE(retention_hits(trace, kExperts / 8), naive_lru_hits(trace, kExperts / 8) + 0.05);
}

TEST(Retention, LoopLargerThanTheMemoryKeepsAPartOfItself) {
  const CacheTrace trace = testing::loop_trace(kExperts, kUses);
  EXPECT_EQ(naive_lru_hits(trace, kExperts / 2), 0.0);
  EXPECT_GE(retention_hits(trace, kExperts / 2), 0.4);
}

TEST(Retention, IsNeverTwoPointsWorseThanLeastRecentlyUsed) {
  const std::vector<CacheTrace> traces = {
      testing::zipf_trace(kExperts, kUses, 1),
      testing::uniform_trace(kExperts, kUses, 1),
      testing::scan_trace(kExperts, kUses, 1),
      testing::loop_trace(kExperts, kUses),
      testing::replay_trace(kReplay, kUses, 1),
      testing::replay_trace({.layers = 12, .per_layer = 128, .top_k = 4, .subject_tokens = 5},
                            kUses, 2)};
  for (std::size_t i = 0; i < traces.size(); ++i) {
    for (const std::size_t capacity : {16U, 250U, 750U, 1000U}) {
      EXPECT_GE(retention_hits(traces[i], capacity), naive_lru_hits(traces[i], capacity) - kLossMax)
          << "trace " << i << ", capacity " << capacity;
    }
  }
}

TEST(Retention, FavouritesThatMoveAreFollowed) {
  CacheTrace trace;  // every 5,000 uses another hundred experts, used at random
  Prng prng(5);
  for (std::size_t i = 0; i < kUses; ++i)
    trace.push_back(static_cast<std::uint32_t>(i / 5000 * 37 % 1900 + prng.below(100)));
  EXPECT_GE(retention_hits(trace, 110), naive_lru_hits(trace, 110) - kLossMax);
}

// Goal: whatever is used, enters, leaves, is forgotten or resized, the victim is a resident that
// may go, and there is one as long as there is such a resident.
TEST(Retention, VictimIsAlwaysAResidentThatMayGo) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    Prng prng(seed);
    Retention retention(50);
    std::set<ItemId> residents;
    for (int step = 0; step < 20'000; ++step) {
      const ItemId id{static_cast<std::uint32_t>(prng.below(40))};
      switch (prng.below(6)) {
        case 0:
          if (residents.insert(id).second) retention.on_enter(id);
          break;
        case 1:
          if (residents.erase(id) > 0) retention.on_leave(id);
          break;
        case 2:
          if (prng.below(20) != 0) break;
          retention.forget(id);
          residents.erase(id);
          break;
        case 3:
          if (prng.below(20) == 0) retention.set_capacity(prng.below(80));
          break;
        default:
          retention.on_use(id, 1 + prng.below(9));
      }
      const auto is_odd = [](ItemId item) { return static_cast<std::uint32_t>(item) % 2 == 1; };
      const auto victim = retention.victim(is_odd);
      const bool has_odd = std::any_of(residents.begin(), residents.end(), is_odd);
      ASSERT_EQ(victim.has_value(), has_odd) << "step " << step;
      if (!victim) continue;
      ASSERT_TRUE(residents.contains(*victim));
      ASSERT_TRUE(is_odd(*victim));
    }
  }
}

}  // namespace
}  // namespace tenzro::holder
