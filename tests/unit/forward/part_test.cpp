// How batches become parts, parts become calls, and outputs parts again.
#include "tenzro/forward/part.hpp"

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::forward {
namespace {

TEST(Part, RowsOfABatchAreSplitInOrderAndNoneIsLost) {
  constexpr std::uint32_t kWidth = 7168;
  planner::Batch batch{.slot = {0, 4}};
  for (std::uint32_t i = 0; i < 1000; ++i) batch.tokens.push_back(999 - i);
  const std::vector<Part> parts = split(batch, kWidth);
  std::uint32_t next = 0;
  for (const Part& part : parts) {
    EXPECT_EQ(part.expert, 4U);
    // As base64 text in a tenzro/moe frame.
    EXPECT_LT(part.rows.size() * kWidth * sizeof(float) * 4 / 3, wire::kMoeFrameBytesMax);
    for (const std::uint32_t row : part.rows) EXPECT_EQ(row, next++);
  }
  EXPECT_EQ(next, 1000U);
}

TEST(Part, GroupsFitAMessageAndKeepEveryPartOnce) {
  Prng prng(3);
  for (int round = 0; round < 200; ++round) {
    const auto width = static_cast<std::uint32_t>(32 + prng.below(8192));
    std::vector<Part> parts;
    std::vector<PartIndex> wanted;
    for (std::uint64_t i = 0; i <= prng.below(60); ++i) {
      Part part{.expert = static_cast<ExpertIndex>(i)};
      part.rows.resize(1 + prng.below(rows_in_part_max(width)));
      wanted.push_back(parts.size());
      parts.push_back(std::move(part));
    }
    std::vector<PartIndex> all;
    for (const std::vector<PartIndex>& one : group(parts, wanted, width, true)) {
      std::size_t rows = 0;
      for (const PartIndex i : one) rows += parts[i].rows.size();
      EXPECT_LT(rows * width * sizeof(float), wire::kExecMessageBytesMax);
      all.insert(all.end(), one.begin(), one.end());
    }
    EXPECT_EQ(all, wanted);
    EXPECT_EQ(group(parts, wanted, width, false).size(), wanted.size());
  }
}

TEST(Part, OutputsWithFewerRowsThanAPartGiveItNothing) {
  const std::vector<Part> parts{{.expert = 1, .rows = {0, 1}}, {.expert = 1, .rows = {2}}};
  work::ExpertOutput output{1, {0, 1}, BufferRef::allocate(2 * sizeof(float))};
  const auto shares = distribute(parts, {0, 1}, {output});
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares[0].first, 0U);
  EXPECT_TRUE(distribute(parts, {0, 1}, {{7, {0}, BufferRef::allocate(4)}}).empty());
}

}  // namespace
}  // namespace tenzro::forward
