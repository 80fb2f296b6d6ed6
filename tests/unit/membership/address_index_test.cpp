#include "tenzro/membership/address_index.hpp"

#include <map>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

namespace tenzro::membership {
namespace {

using Map = std::map<ProviderAddress, int>;

/// A map and its index, changed together.
struct Indexed {
  void add(const ProviderAddress& address) {
    const auto [place, is_new] = map.emplace(address, 0);
    if (is_new) index.insert(place);
  }

  void remove(const ProviderAddress& address) {
    const auto place = map.find(address);
    if (place == map.end()) return;
    index.erase(place);
    map.erase(place);
  }

  [[nodiscard]] bool agrees_on(const ProviderAddress& address) const {
    const auto found = index.find(address);
    return found ? (*found)->first == address : !map.contains(address);
  }

  /// The first of the map with that start is the one that the index gives.
  [[nodiscard]] bool agrees_on_start_of(const ProviderAddress& address) const {
    const wire::AddressPrefix prefix = wire::prefix_of(address);
    ProviderAddress low{};
    std::copy(prefix.begin(), prefix.end(), low.begin());
    const auto first = map.lower_bound(low);
    const bool is_there = first != map.end() && wire::prefix_of(first->first) == prefix;
    const auto found = index.find(prefix);
    return found.has_value() == is_there && (!is_there || (*found)->first == first->first);
  }

  Map map;
  AddressIndex<Map::iterator> index;
};

/// Evenly spread where `spread` bits of the start are drawn; crowded where few are.
ProviderAddress draw(Prng& prng, unsigned spread) {
  ProviderAddress address{};
  for (std::uint8_t& byte : address) byte = static_cast<std::uint8_t>(prng.below(4));
  const std::uint64_t head = spread == 0 ? 0 : prng.next() >> (64U - spread);
  for (unsigned i = 0; i < 8; ++i) address[i] = static_cast<std::uint8_t>(head >> (56U - 8 * i));
  return address;
}

class AddressIndexAgainstItsMap : public ::testing::TestWithParam<unsigned> {};

// Goal: the index finds what the map finds. Method: seeded additions and removals, spread evenly,
// crowded at the low end, and with equal first bytes.
TEST_P(AddressIndexAgainstItsMap, FindsWhatTheMapFinds) {
  Prng prng(GetParam() + 1);
  Indexed indexed;
  std::vector<ProviderAddress> drawn;
  for (std::size_t step = 0; step < 3000; ++step) {
    const ProviderAddress address = draw(prng, GetParam());
    drawn.push_back(address);
    indexed.add(address);
    if (prng.below(3) == 0) indexed.remove(drawn[prng.below(drawn.size())]);
    const ProviderAddress& asked = drawn[prng.below(drawn.size())];
    ASSERT_TRUE(indexed.agrees_on(asked)) << step;
    ASSERT_TRUE(indexed.agrees_on_start_of(asked)) << step;
    ASSERT_TRUE(indexed.agrees_on_start_of(draw(prng, GetParam()))) << step;
  }
  for (const ProviderAddress& address : drawn) indexed.remove(address);
  EXPECT_FALSE(indexed.index.find(drawn.front()));
}

INSTANTIATE_TEST_SUITE_P(SpreadBits, AddressIndexAgainstItsMap,
                         ::testing::Values(64U, 63U, 40U, 12U, 8U, 1U, 0U));

TEST(AddressIndex, EmptyOneFindsNothing) {
  const AddressIndex<Map::iterator> index;
  EXPECT_FALSE(index.find(ProviderAddress{}));
  EXPECT_FALSE(index.find(wire::AddressPrefix{}));
}

TEST(AddressIndex, LowestAndHighestAddressesAreFound) {
  Indexed indexed;
  ProviderAddress highest;
  highest.fill(255);
  indexed.add({});
  indexed.add(highest);
  EXPECT_TRUE(indexed.agrees_on({}));
  EXPECT_TRUE(indexed.agrees_on(highest));
  EXPECT_TRUE(indexed.agrees_on_start_of(highest));
}

}  // namespace
}  // namespace tenzro::membership
