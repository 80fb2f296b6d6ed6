// The passes of each ISA against the portable ones, whose bits the vectors pin.
#include "row_passes.hpp"

#include <bit>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

namespace tenzro::receipts {
namespace {

/// Any bits, and often those at which something changes: ties, infinities, NaN, subnormals, zeros.
float any_value(Prng& prng) {
  constexpr std::uint32_t kEdges[] = {0x00000000, 0x80000000, 0x00000001, 0x00008000, 0x00018000,
                                      0x3F808000, 0x3F818000, 0x3F807FFF, 0x7F7FFFFF, 0x7F800000,
                                      0xFF800000, 0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0x7FBFFFFF};
  if (prng.below(3) == 0) return std::bit_cast<float>(kEdges[prng.below(std::size(kEdges))]);
  return std::bit_cast<float>(static_cast<std::uint32_t>(prng.below(1ULL << 32U)));
}

std::vector<float> any_values(Prng& prng, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = any_value(prng);
  return values;
}

TEST(RowPasses, Avx2NarrowsToTheSameBits) {
  const RowPasses* const fast = avx2_passes();
  if (fast == nullptr) GTEST_SKIP() << "no AVX2 here";
  Prng prng(5);
  for (std::size_t count = 0; count < 300; ++count) {
    const std::vector<float> values = any_values(prng, count);
    std::vector<std::uint16_t> expected(count + 1, 7);  // one more, which stays
    std::vector<std::uint16_t> actual(count + 1, 7);
    portable_passes().narrow(values.data(), count, expected.data());
    fast->narrow(values.data(), count, actual.data());
    ASSERT_EQ(actual, expected) << count;
  }
}

TEST(RowPasses, Avx2FindsTheSameMaxima) {
  const RowPasses* const fast = avx2_passes();
  if (fast == nullptr) GTEST_SKIP() << "no AVX2 here";
  Prng prng(6);
  for (std::size_t groups = 0; groups < 100; ++groups) {
    std::vector<float> values = any_values(prng, groups * kMagnitudeGroup);
    if (groups % 2 == 0) {  // finite ones, so that the maxima differ
      for (float& value : values) value = static_cast<float>(prng.below(1000)) - 500.0F;
    }
    std::vector<std::int32_t> expected(groups + 1, -3);
    std::vector<std::int32_t> actual(groups + 1, -3);
    portable_passes().group_maxima(values.data(), groups, expected.data());
    fast->group_maxima(values.data(), groups, actual.data());
    ASSERT_EQ(actual, expected) << groups;
  }
}

TEST(RowPasses, TheBestAreAmongThem) {
  const RowPasses* const expected = avx2_passes() != nullptr ? avx2_passes() : &portable_passes();
  EXPECT_EQ(&best_passes(), expected);
}

}  // namespace
}  // namespace tenzro::receipts
