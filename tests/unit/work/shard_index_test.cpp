// The compact index against a map of the same tensors.
#include "tenzro/work/shard_index.hpp"

#include <map>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

namespace tenzro::work {
namespace {

std::string random_name(Prng& prng) {
  std::string name = "layers.";
  for (std::uint64_t left = prng.below(4); left > 0; --left)
    name.push_back(static_cast<char>('a' + prng.below(3)));
  return name;
}

/// The same tensors in both.
struct Twins {
  ShardIndex index;
  std::map<std::string, std::string> map;
};

Twins random_twins(Prng& prng) {
  Twins twins;
  for (int i = 0; i < 40; ++i) {
    const std::string name = random_name(prng);
    const std::string file = "shard-" + std::to_string(prng.below(5));
    if (twins.map.emplace(name, file).second) {
      EXPECT_TRUE(twins.index.add(name, file));
    }
  }
  EXPECT_EQ(twins.index.seal(), std::nullopt);
  return twins;
}

TEST(ShardIndex, HoldsWhatAMapHolds) {
  Prng prng(5);
  for (int round = 0; round < 50; ++round) {
    const Twins twins = random_twins(prng);
    std::vector<std::string> names;
    for (const auto& [name, file] : twins.map) {
      names.push_back(name);
      ASSERT_TRUE(twins.index.contains(name)) << name;
      EXPECT_EQ(*twins.index.file_of(name), file);
    }
    EXPECT_EQ(twins.index.tensors(), names);
    EXPECT_EQ(twins.index.size(), names.size());
  }
}

TEST(ShardIndex, HoldsNothingElse) {
  Prng prng(6);
  for (int round = 0; round < 50; ++round) {
    const Twins twins = random_twins(prng);
    for (int i = 0; i < 40; ++i) {
      const std::string name = random_name(prng);
      EXPECT_EQ(twins.index.contains(name), twins.map.contains(name)) << name;
    }
  }
}

TEST(ShardIndex, ATensorThatIsAddedTwiceIsNamed) {
  ShardIndex index;
  EXPECT_TRUE(index.add("b", "1"));
  EXPECT_TRUE(index.add("a", "1"));
  EXPECT_TRUE(index.add("b", "2"));
  EXPECT_EQ(index.seal(), "b");
}

TEST(ShardIndex, MoreFilesThanItsBoundAreRefused) {
  ShardIndex index;
  for (std::size_t i = 0; i < ShardIndex::kFilesMax; ++i)
    ASSERT_TRUE(index.add("tensor " + std::to_string(i), std::to_string(i)));
  EXPECT_FALSE(index.add("one more", "another file"));
  EXPECT_TRUE(index.add("one more", "0"));
  EXPECT_EQ(index.seal(), std::nullopt);
  EXPECT_EQ(*index.file_of("one more"), "0");
}

TEST(ShardIndex, AnEmptyOneHoldsNothing) {
  ShardIndex index;
  EXPECT_EQ(index.seal(), std::nullopt);
  EXPECT_FALSE(index.contains(""));
}

}  // namespace
}  // namespace tenzro::work
