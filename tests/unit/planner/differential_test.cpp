// Goal: the planner and its naive twin choose the same holders in the same order.
// Method: random views with few values each, so that every rule meets ties.
#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

#include "support/naive_planner.hpp"

namespace tenzro::planner {
namespace {

constexpr View::Slot kSlot{2, 7};

ProviderAddress address(std::uint64_t number) {
  ProviderAddress address{};
  address[0] = static_cast<std::uint8_t>(number);
  return address;
}

shards::Provider random_provider(std::uint64_t number, Prng& prng) {
  shards::Provider provider{.address = address(number)};
  provider.has_gpu = prng.below(2) == 0;
  provider.committed_tps = prng.below(4) == 0 ? 1000 : 10;
  provider.profiles = static_cast<std::uint8_t>(1 + prng.below(3));
  provider.is_draining = prng.below(6) == 0;
  provider.health = prng.below(4) == 0 ? shards::Health::suspect : shards::Health::alive;
  return provider;
}

shards::Holding random_holding(Prng& prng) {
  shards::Holding holding{.is_warm = prng.below(3) != 0};
  holding.blob[0] = static_cast<std::uint8_t>(prng.below(3));
  if (prng.below(2) == 0)
    holding.types = {tensor::WeightType::f32, tensor::WeightType::f32,
                     prng.below(2) == 0 ? tensor::WeightType::f32 : tensor::WeightType::q6_k};
  return holding;
}

void random_history(ledger::Standings& standings, std::uint64_t number, Instant now, Prng& prng) {
  for (std::uint64_t i = prng.below(5); i > 0; --i) {
    ledger::OpenCall open = standings.on_begun(now, address(number), 1);
    switch (prng.below(8)) {
      case 0:
        standings.on_failed(now, open, ledger::Failure::lied);
        break;
      case 1:
        standings.on_busy(now, open, std::nullopt);
        break;
      case 2:
        break;  // still in flight
      case 3:
        standings.on_late(open);
        standings.on_abandoned(now, open);  // stalled
        break;
      default:
        standings.on_answered(now, open, now + Duration{static_cast<int>(100 * prng.below(3))});
    }
  }
}

Options random_options(std::uint64_t holders, Prng& prng) {
  Options options{.prefers_self = prng.below(3) != 0, .request = prng.next()};
  if (prng.below(2) == 0) options.self = address(1 + prng.below(holders));
  if (prng.below(2) == 0) options.allow_cold = prng.below(2) == 0;
  if (prng.below(2) == 0)
    options.profile = prng.below(2) == 0 ? compute::Profile::exact : compute::Profile::fast;
  if (prng.below(3) == 0) options.excluded.insert(address(1 + prng.below(holders)));
  return options;
}

TEST(PlanAgainstNaiveTwin, SameHoldersInTheSameOrder) {
  std::size_t with_standbys = 0;
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    Prng prng(seed);
    View view(shards::Options{});
    ledger::Standings standings{ledger::Options{}};
    const Instant now{std::chrono::seconds(50)};
    const std::uint64_t holders = 1 + prng.below(14);
    for (std::uint64_t number = 1; number <= holders; ++number) {
      view.set_provider(random_provider(number, prng));
      view.declare(address(number), {"m", kSlot.first, kSlot.second}, random_holding(prng));
      random_history(standings, number, now, prng);
    }
    Options options = random_options(holders, prng);
    options.now = now;
    if (prng.below(4) != 0) options.standings = &standings;
    const std::vector<TokenExperts> routing{{0, {kSlot}}, {1, {kSlot}}};
    const Plan plan = make_plan("m", routing, view, options);
    const std::vector<ProviderAddress> expected = testing::naive_holders(
        view.candidates({"m", kSlot.first, kSlot.second}), kSlot, 2, options);
    std::vector<ProviderAddress> chosen;
    for (const Batch& batch : plan.batches) {
      for (const Holder& holder : batch.holders) chosen.push_back(holder.provider);
    }
    ASSERT_EQ(chosen, expected) << "seed " << seed;
    with_standbys += chosen.size() > 1 ? 1U : 0U;
  }
  EXPECT_GT(with_standbys, 1000U);
}

}  // namespace
}  // namespace tenzro::planner
