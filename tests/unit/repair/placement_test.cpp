#include "tenzro/repair/placement.hpp"

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"

#include "mesh_view.hpp"

namespace tenzro::repair {
namespace {

std::vector<Contender> contenders(std::initializer_list<std::uint8_t> numbers) {
  std::vector<Contender> all;
  for (const std::uint8_t number : numbers) all.push_back(make_contender(address(number)));
  return all;
}

/// Made with Python's hashlib from the rule in words; other implementations name the same order.
TEST(Placement, ScoresAreTheBytesOfTheGoldenVector) {
  const std::string key = placement_key({"qwen", 0, 1});
  EXPECT_EQ(key, "qwen/0/1");
  EXPECT_EQ(make_contender(address(1)).name, "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi");
  const char* const scores[] = {"0f198c2c1fdbcb83e5379b85be124239330d9a77fa6f2224cfa8e570bba16278",
                                "05e6fda5cc1ca0d86c76366cf05b0a706da2c22cb5936661503f17b4f404a51e",
                                "67dcb7f8713d3b93fa0b9779dda180b28318f023f664aa35e94ee91ad7f3e675",
                                "b59a633f90282fd8eab2329bbc026c348ac42dee43a1409437d903b4f1de68cd",
                                "de77a4fdc9060fc087785099a72fffd4d221b082e06f2852a489ed4ae63b3865",
                                "9250f22c24b74afc531ace9694313556229a87022dbe5460ed5f6dfb62bf4fd8"};
  for (std::uint8_t i = 1; i <= 6; ++i)
    EXPECT_EQ(to_hex(placement_score(key, make_contender(address(i)).name)), scores[i - 1]);
}

TEST(Placement, RanksTheHigherScoreFirstWhateverTheOrderOfTheContenders) {
  const std::vector<ProviderAddress> golden{address(5), address(4), address(6),
                                            address(3), address(1), address(2)};
  EXPECT_EQ(rank({"qwen", 0, 1}, contenders({1, 2, 3, 4, 5, 6})), golden);
  EXPECT_EQ(rank({"qwen", 0, 1}, contenders({6, 3, 5, 2, 1, 4})), golden);
}

TEST(Placement, OneContenderLessMovesNobodyElse) {
  std::vector<ProviderAddress> order = rank({"m", 3, 7}, contenders({1, 2, 3, 4, 5, 6}));
  std::erase(order, address(4));
  EXPECT_EQ(rank({"m", 3, 7}, contenders({1, 2, 3, 5, 6})), order);
}

}  // namespace
}  // namespace tenzro::repair
