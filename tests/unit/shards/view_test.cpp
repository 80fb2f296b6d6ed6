#include "tenzro/shards/view.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

namespace tenzro::shards {
namespace {

ProviderAddress address(std::uint8_t number) {
  ProviderAddress address{};
  address[0] = number;
  return address;
}

std::vector<std::uint8_t> order(const View& view, const ExpertKey& key) {
  std::vector<std::uint8_t> numbers;
  for (const Candidate& candidate : view.candidates(key))
    numbers.push_back(candidate.provider->address[0]);
  return numbers;
}

const ExpertKey kKey{"m", 1, 2};

TEST(View, RanksWarmThenGpuThenRateThenAddress) {
  View view(Options{});
  view.set_provider({.address = address(5), .committed_tps = 900});
  view.set_provider({.address = address(4), .has_gpu = true, .committed_tps = 1});
  view.set_provider({.address = address(3), .committed_tps = 900});
  view.set_provider({.address = address(2), .committed_tps = 10'000});
  view.set_provider({.address = address(1), .has_gpu = true, .committed_tps = 99'999});
  for (const int warm : {2, 3, 4, 5})
    view.declare(address(static_cast<std::uint8_t>(warm)), kKey, {.is_warm = true});
  view.declare(address(1), kKey, {.is_warm = false});
  EXPECT_EQ(order(view, kKey), (std::vector<std::uint8_t>{4, 2, 3, 5, 1}));
}

TEST(View, UnknownProvidersDeclareNothingAndRemovedOnesTakeTheirHoldings) {
  View view(Options{});
  view.declare(address(1), kKey, {});
  EXPECT_TRUE(view.candidates(kKey).empty());
  view.set_provider({.address = address(1)});
  view.declare(address(1), kKey, {});
  view.declare(address(1), {"other", 0, 0}, {});
  EXPECT_EQ(view.model("m").size(), 1U);
  view.remove_provider(address(1));
  EXPECT_TRUE(view.model("m").empty());
  EXPECT_TRUE(view.model("other").empty());
  EXPECT_TRUE(view.providers().empty());
}

TEST(View, KnowsWhatEachProviderHoldsThroughAnyChanges) {
  Prng prng(7);
  View view(Options{.holdings_max = 300});
  std::map<std::uint8_t, std::set<ExpertKey>> naive;
  std::size_t total = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto who = static_cast<std::uint8_t>(1 + prng.below(12));
    const ExpertKey key{prng.below(2) == 0 ? "m" : "n", static_cast<LayerIndex>(prng.below(4)),
                        static_cast<ExpertIndex>(prng.below(20))};
    switch (prng.below(40)) {
      case 0: {
        View::Held naive_held;
        for (const ExpertKey& held : naive[who])
          naive_held[held.model].insert({held.layer, held.expert});
        EXPECT_EQ(view.remove_provider(address(who)), naive_held);
        total -= naive[who].size();
        naive.erase(who);
        break;
      }
      case 1:
      case 2:
        view.set_provider({.address = address(who)});
        break;
      case 3:
      case 4:
      case 5:
      case 6:
        view.withdraw(address(who), key);
        total -= naive[who].erase(key);
        break;
      default:
        view.declare(address(who), key, {});
        if (!view.providers().contains(address(who)) || naive[who].contains(key)) break;
        if (total < 300 && naive[who].insert(key).second) ++total;
    }
  }
  std::size_t listed = 0;
  for (std::uint8_t who = 1; who <= 12; ++who) {
    std::set<ExpertKey> held;
    if (const View::Held* all = view.held(address(who))) {
      for (const auto& [model, slots] : *all) {
        for (const auto& [layer, expert] : slots) held.insert({model, layer, expert});
      }
    }
    EXPECT_EQ(held, naive[who]);
    for (const ExpertKey& key : held) EXPECT_NE(view.holding(address(who), key), nullptr);
    listed += held.size();
  }
  EXPECT_EQ(listed, total);
}

TEST(View, GivesTheExpertsOfAModelInSlices) {
  View view(Options{});
  view.set_provider({.address = address(1)});
  for (ExpertIndex e = 0; e < 10; ++e) view.declare(address(1), {"m", e / 4, e}, {});
  view.declare(address(1), {"n", 0, 0}, {});
  EXPECT_EQ(view.models(), (std::vector<ModelId>{"m", "n"}));
  std::vector<View::Slot> slots;
  std::optional<View::Slot> after;
  while (true) {
    const auto slice = view.slots_after("m", after, 3);
    if (slice.empty()) break;
    EXPECT_LE(slice.size(), 3U);
    for (const auto& [slot, holders] : slice) {
      EXPECT_EQ(holders.size(), 1U);
      slots.push_back(slot);
    }
    after = slots.back();
  }
  EXPECT_EQ(slots.size(), 10U);
  EXPECT_TRUE(std::is_sorted(slots.begin(), slots.end()));
  EXPECT_TRUE(view.slots_after("none", std::nullopt, 3).empty());
}

TEST(View, DeclaringAgainReplacesAndWithdrawingTwiceIsHarmless) {
  View view(Options{});
  view.set_provider({.address = address(1)});
  view.declare(address(1), kKey, {.is_warm = true});
  view.declare(address(1), kKey, {.is_warm = false, .blob_uri = "tenzro://blob/x"});
  ASSERT_EQ(view.candidates(kKey).size(), 1U);
  EXPECT_FALSE(view.candidates(kKey)[0].holding->is_warm);
  view.withdraw(address(1), kKey);
  view.withdraw(address(1), kKey);
  EXPECT_TRUE(view.candidates(kKey).empty());
}

TEST(View, BeyondItsLimitsNewOnesAreRefusedAndOldOnesStillChange) {
  View view(Options{.providers_max = 1, .holdings_max = 1});
  view.set_provider({.address = address(1)});
  view.set_provider({.address = address(2)});
  EXPECT_EQ(view.providers().size(), 1U);
  view.declare(address(1), kKey, {.is_warm = true});
  view.declare(address(1), {"m", 1, 3}, {});
  EXPECT_TRUE(view.candidates({"m", 1, 3}).empty());
  view.declare(address(1), kKey, {.is_warm = false});
  EXPECT_FALSE(view.candidates(kKey)[0].holding->is_warm);
  view.withdraw(address(1), kKey);
  view.declare(address(1), {"m", 1, 3}, {});
  EXPECT_EQ(view.candidates({"m", 1, 3}).size(), 1U);
}

}  // namespace
}  // namespace tenzro::shards
