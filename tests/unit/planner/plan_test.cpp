#include "tenzro/planner/plan.hpp"

#include <gtest/gtest.h>

namespace tenzro::planner {
namespace {

ProviderAddress address(std::uint8_t number) {
  ProviderAddress address{};
  address[0] = number;
  return address;
}

/// Provider 1 warm, 2 warm and slower, 3 cold; all hold expert (0, 0).
View three_holders() {
  View view(shards::Options{});
  view.set_provider({.address = address(1), .committed_tps = 9});
  view.set_provider({.address = address(2), .committed_tps = 5});
  view.set_provider({.address = address(3), .committed_tps = 99});
  view.declare(address(1), {"m", 0, 0}, {.is_warm = true});
  view.declare(address(2), {"m", 0, 0}, {.is_warm = true});
  view.declare(address(3), {"m", 0, 0}, {.is_warm = false});
  return view;
}

/// In the order of their numbers: who of equals goes first is drawn.
std::set<std::uint8_t> holders_of(const Batch& batch) {
  std::set<std::uint8_t> numbers;
  for (const Holder& holder : batch.holders) numbers.insert(holder.provider[0]);
  return numbers;
}

const std::vector<TokenExperts> kOneToken{{0, {{0, 0}}}};

TEST(Plan, WarmHoldersServeAndColdOnesOnlyWhenAllowed) {
  const View view = three_holders();
  EXPECT_EQ(holders_of(make_plan("m", kOneToken, view, {}).batches.at(0)),
            (std::set<std::uint8_t>{1, 2}));
  const Plan any = make_plan("m", kOneToken, view, {.allow_cold = true});
  EXPECT_EQ(holders_of(any.batches.at(0)), (std::set<std::uint8_t>{1, 2, 3}));
  EXPECT_NE(any.batches.at(0).provider(), address(3)) << "warm before cold";
}

TEST(Plan, ColdHolderServesWhereNoWarmOneIsUnlessForbidden) {
  View view = three_holders();
  view.withdraw(address(1), {"m", 0, 0});
  view.withdraw(address(2), {"m", 0, 0});
  EXPECT_EQ(make_plan("m", kOneToken, view, {}).batches.size(), 1U);
  const Plan forbidden = make_plan("m", kOneToken, view, {.allow_cold = false});
  EXPECT_TRUE(forbidden.batches.empty());
  ASSERT_EQ(forbidden.unreachable.size(), 1U);
  EXPECT_EQ(unreachable_text(forbidden.unreachable[0].slot),
            "expert l0/e0 has no reachable holder");
}

TEST(Plan, OwnExpertGoesFirstOnEitherTier) {
  const View view = three_holders();
  const Plan plan = make_plan("m", kOneToken, view, {.self = address(3), .allow_cold = false});
  EXPECT_EQ(plan.batches.at(0).provider(), address(3));
  EXPECT_EQ(holders_of(plan.batches.at(0)), (std::set<std::uint8_t>{1, 2, 3}));
}

TEST(Plan, BatchesAreSortedAndATokenIsListedOnceInEach) {
  View view = three_holders();
  view.declare(address(2), {"m", 0, 7}, {});
  const std::vector<TokenExperts> routing{
      {9, {{0, 7}, {0, 0}, {0, 7}}}, {4, {{0, 7}}}, {9, {{0, 7}}}};
  const Plan plan = make_plan("m", routing, view, {});
  ASSERT_EQ(plan.batches.size(), 2U);
  EXPECT_EQ(plan.batches[0].slot, (View::Slot{0, 0}));
  EXPECT_EQ(plan.batches[1].tokens, (std::vector<std::uint32_t>{9, 4}));
}

TEST(Plan, OtherModelsHoldNothingForThisOne) {
  EXPECT_EQ(make_plan("other", kOneToken, three_holders(), {}).unreachable.size(), 1U);
}

}  // namespace
}  // namespace tenzro::planner
