#include "tenzro/shards/view.hpp"

#include <gtest/gtest.h>

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
