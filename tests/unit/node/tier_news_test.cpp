// What others are told of a tier, and when.
#include "tenzro/node/tier_news.hpp"

#include <set>

#include <gtest/gtest.h>

namespace tenzro::node {
namespace {

using std::chrono::seconds;

const ExpertKey kExpert{"m", 0, 7};

Instant at(int second) {
  return Instant{seconds(second)};
}

struct World {
  TierNews news{seconds(10)};
  std::set<ExpertKey> memory;

  void change(int second, bool is_in_memory) {
    if (is_in_memory) {
      memory.insert(kExpert);
    } else {
      memory.erase(kExpert);
    }
    news.on_tier_changed(at(second), kExpert, is_in_memory);
  }

  std::optional<Instant> settle(int second) {
    return news.settle(at(second), [this](const ExpertKey& key) { return memory.contains(key); });
  }

  [[nodiscard]] bool is_told_warm() const {
    return news.is_told_warm(kExpert, memory.contains(kExpert));
  }
};

TEST(TierNews, FirstTimeInMemoryIsToldWarmAtOnce) {
  World world;
  world.change(1, true);
  EXPECT_TRUE(world.is_told_warm());
  EXPECT_EQ(world.settle(1), std::nullopt);
}

TEST(TierNews, EvictedIsToldColdAndWarmAgainOnlyAfterAHeartbeatInMemory) {
  World world;
  world.change(1, true);
  world.change(2, false);
  EXPECT_FALSE(world.is_told_warm());
  EXPECT_EQ(world.settle(3), std::nullopt) << "nothing will come of itself";
  world.change(4, true);
  EXPECT_FALSE(world.is_told_warm());
  EXPECT_EQ(world.settle(5), at(14));
  EXPECT_EQ(world.settle(14), std::nullopt);
  EXPECT_TRUE(world.is_told_warm());
}

TEST(TierNews, OneThatComesAndGoesIsNeverTold) {
  World world;
  world.change(0, false);
  for (int second = 1; second < 100; ++second) {
    world.change(second, second % 2 == 0);
    world.settle(second);
    EXPECT_FALSE(world.is_told_warm()) << second;
  }
}

TEST(TierNews, WithdrawnOneBeginsAnew) {
  World world;
  world.change(1, false);
  world.news.on_withdrawn(kExpert);
  world.change(2, true);
  EXPECT_TRUE(world.is_told_warm());
}

}  // namespace
}  // namespace tenzro::node
