// Who goes first, who stands by, who is out of the question.
#include <map>

#include <gtest/gtest.h>

#include "tenzro/planner/plan.hpp"

namespace tenzro::planner {
namespace {

constexpr View::Slot kSlot{0, 0};

ProviderAddress address(std::uint8_t number) {
  ProviderAddress address{};
  address[0] = number;
  return address;
}

BlobHash blob(std::uint8_t number) {
  BlobHash hash{};
  hash[0] = number;
  return hash;
}

struct Fixture {
  View view{shards::Options{}};
  ledger::Standings standings{ledger::Options{}};
  Options options{.now = Instant{std::chrono::seconds(10)}};

  Fixture() { options.standings = &standings; }

  void hold(std::uint8_t number, shards::Provider provider = {}, shards::Holding holding = {}) {
    provider.address = address(number);
    view.set_provider(provider);
    view.declare(provider.address, {"m", 0, 0}, std::move(holding));
  }

  void answer(std::uint8_t number, Duration took) {
    const auto open = standings.on_begun(options.now, address(number), 1);
    standings.on_answered(options.now, open, options.now + took);
  }

  [[nodiscard]] std::vector<std::uint8_t> order() const {
    std::vector<std::uint8_t> numbers;
    for (const Batch& batch : make_plan("m", {{0, {kSlot}}}, view, options).batches) {
      for (const Holder& holder : batch.holders) numbers.push_back(holder.provider[0]);
    }
    return numbers;
  }

  /// How often each holder is the primary, over many requests.
  [[nodiscard]] std::map<std::uint8_t, int> primaries(int requests) {
    std::map<std::uint8_t, int> counts;
    for (int request = 0; request < requests; ++request) {
      options.request = static_cast<std::uint64_t>(request);
      ++counts[order().front()];
    }
    return counts;
  }
};

using Order = std::vector<std::uint8_t>;

TEST(PlanOrder, EqualHoldersShareTheLoad) {
  Fixture fixture;
  for (std::uint8_t number = 1; number <= 4; ++number) fixture.hold(number);
  for (const auto& [number, count] : fixture.primaries(4000)) {
    EXPECT_GT(count, 800) << int{number};
    EXPECT_LT(count, 1200) << int{number};
  }
}

TEST(PlanOrder, EqualInputGivesAnEqualPlan) {
  Fixture fixture;
  for (std::uint8_t number = 1; number <= 9; ++number) fixture.hold(number);
  EXPECT_EQ(fixture.order(), fixture.order());
}

TEST(PlanOrder, LighterOfTwoDrawnIsAskedAndTheHeavierIsNotForgotten) {
  Fixture fixture;
  for (std::uint8_t number = 1; number <= 3; ++number) {
    fixture.hold(number);
    fixture.answer(number, std::chrono::milliseconds(number == 1 ? 50 : 1));
  }
  const auto counts = fixture.primaries(3000);
  EXPECT_FALSE(counts.contains(1)) << "of two it is always the slower";
  EXPECT_GT(counts.at(2), 1000);
}

TEST(PlanOrder, HolderThatNobodyMeasuredIsTried) {
  Fixture fixture;
  fixture.hold(1);
  fixture.hold(2);
  fixture.answer(1, std::chrono::milliseconds(1));
  EXPECT_EQ(fixture.order().front(), 2);
}

TEST(PlanOrder, CallsInFlightWeighAsMuchAsTime) {
  Fixture fixture;
  fixture.hold(1);
  fixture.hold(2);
  fixture.answer(1, std::chrono::milliseconds(1));
  fixture.answer(2, std::chrono::milliseconds(2));
  EXPECT_EQ(fixture.order().front(), 1);
  (void)fixture.standings.on_begun(fixture.options.now, address(1), 1);
  (void)fixture.standings.on_begun(fixture.options.now, address(1), 1);
  EXPECT_EQ(fixture.order().front(), 2);
}

TEST(PlanOrder, SuspectAndQuarantinedHoldersComeLast) {
  Fixture fixture;
  fixture.hold(1, {.health = shards::Health::suspect});
  fixture.hold(2);
  for (int i = 0; i < 3; ++i) {
    fixture.standings.on_failed(fixture.options.now,
                                fixture.standings.on_begun(fixture.options.now, address(2), 1),
                                ledger::Failure::lied);
  }
  fixture.hold(3);
  EXPECT_EQ(fixture.order().size(), 3U);
  EXPECT_EQ(fixture.order().front(), 3);
  fixture.view.remove_provider(address(3));
  EXPECT_EQ(fixture.order().size(), 2U) << "better than nobody";
}

TEST(PlanOrder, ColdHolderServesBeforeAWarmOneThatIsSuspect) {
  Fixture fixture;
  fixture.hold(1, {.health = shards::Health::suspect});
  fixture.hold(2, {}, {.is_warm = false});
  EXPECT_EQ(fixture.order(), (Order{2, 1}));
  fixture.options.allow_cold = false;
  EXPECT_EQ(fixture.order(), (Order{1}));
}

TEST(PlanOrder, LeavingHoldersExcludedOnesAndOtherProfilesAreOut) {
  Fixture fixture;
  fixture.hold(1, {.is_draining = true});
  fixture.hold(2);
  fixture.hold(3, {.profiles = 0b01});
  fixture.hold(4);
  fixture.options.excluded = {address(2)};
  fixture.options.profile = compute::Profile::exact;
  EXPECT_EQ(fixture.order(), (Order{4}));
}

TEST(PlanOrder, LeavingHolderServesWhereNobodyDependableStays) {
  Fixture fixture;
  fixture.hold(1, {.is_draining = true});
  EXPECT_EQ(fixture.order(), (Order{1}));
  fixture.hold(2, {.health = shards::Health::suspect});
  EXPECT_EQ(fixture.order(), (Order{1, 2}));
  fixture.hold(3);
  EXPECT_EQ(fixture.order(), (Order{3, 2}));
}

TEST(PlanOrder, LeavingSelfServesItsOwnRequestsAndIsNotToldToOthers) {
  Fixture fixture;
  fixture.hold(1, {.is_draining = true});
  fixture.hold(2);
  fixture.options.self = address(1);
  EXPECT_EQ(fixture.order(), (Order{1, 2}));
  fixture.options.prefers_self = false;
  EXPECT_EQ(fixture.order(), (Order{2}));
}

TEST(PlanOrder, GpuGoesFirstOnlyForAHotExpert) {
  Fixture fixture;
  fixture.hold(1, {.has_gpu = true});
  fixture.hold(2);
  EXPECT_EQ(fixture.primaries(200).size(), 2U);
  fixture.view.set_rate(address(2), 1000);
  const auto hot = fixture.primaries(200);
  EXPECT_EQ(hot.size(), 1U);
  EXPECT_TRUE(hot.contains(1));
}

TEST(PlanOrder, StandbysWithThePrimarysBytesComeFirstThenItsTypes) {
  const shards::WeightTypes q4{tensor::WeightType::q4_k, tensor::WeightType::q4_k,
                               tensor::WeightType::q4_k};
  const shards::WeightTypes q8{tensor::WeightType::q8_0, tensor::WeightType::q8_0,
                               tensor::WeightType::q8_0};
  Fixture fixture;
  fixture.options.self = address(1);
  fixture.hold(1, {}, {.types = q4, .blob = blob(7)});
  fixture.hold(2, {}, {.types = q8, .blob = blob(8)});
  fixture.hold(3, {}, {.types = q4, .blob = blob(9)});
  fixture.hold(4, {}, {.is_warm = false, .types = q4, .blob = blob(7)});
  fixture.options.allow_cold = true;
  EXPECT_EQ(fixture.order(), (Order{1, 4, 3, 2}));
}

TEST(PlanOrder, BusyHolderComesAfterTheOthersUntilItsTime) {
  Fixture fixture;
  fixture.hold(1);
  fixture.hold(2);
  const auto open = fixture.standings.on_begun(fixture.options.now, address(1), 1);
  fixture.standings.on_busy(fixture.options.now, open, std::chrono::seconds(1));
  EXPECT_EQ(fixture.primaries(50).size(), 1U);
  fixture.options.now = fixture.options.now + std::chrono::seconds(1);
  EXPECT_EQ(fixture.primaries(50).size(), 2U);
}

TEST(PlanOrder, StandbysAreFew) {
  Fixture fixture;
  for (std::uint8_t number = 1; number <= 100; ++number) fixture.hold(number);
  EXPECT_EQ(fixture.order().size(), kStandbysMax + 1);
}

}  // namespace
}  // namespace tenzro::planner
