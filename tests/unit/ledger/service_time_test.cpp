#include "tenzro/ledger/service_time.hpp"

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

namespace tenzro::ledger {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{seconds(100)};

TEST(ServiceTime, LearnsWhatACallAndWhatARowCosts) {
  ServiceTime time;
  Prng prng(1);
  for (int i = 0; i < 4000; ++i) {
    const auto rows = static_cast<std::uint32_t>(1 + prng.below(64));
    time.on_answer(kStart, microseconds(150 + 15 * rows), rows);
  }
  EXPECT_NEAR(static_cast<double>(time.expected(1).count()), 165, 15);
  EXPECT_NEAR(static_cast<double>((time.expected(64) - time.expected(1)).count()), 63 * 15, 63 * 2);
  EXPECT_NEAR(static_cast<double>(time.expected(100).count()), 1650, 100);
}

TEST(ServiceTime, OneSlowAnswerInThirtyTwoIsTheTail) {
  ServiceTime time;
  for (int i = 0; i < 64; ++i) time.on_answer(kStart, milliseconds(10), 1);
  EXPECT_NEAR(static_cast<double>(time.p95(1).count()), 10'000, 200);
  for (int i = 0; i < 3; ++i) time.on_answer(kStart, milliseconds(100), 1);
  EXPECT_GT(time.p95(1), milliseconds(50));
  for (int i = 0; i < 64; ++i) time.on_answer(kStart, milliseconds(10), 1);
  EXPECT_LT(time.p95(1), milliseconds(12));
}

TEST(ServiceTime, StallsDoubleTheWeightUntilAnAnswerComes) {
  ServiceTime time;
  time.on_answer(kStart, microseconds(100), 1);
  const std::uint64_t before = time.weight(kStart, 1, microseconds(1));
  time.on_stall(kStart);
  time.on_stall(kStart);
  EXPECT_EQ(time.weight(kStart, 1, microseconds(1)), 4 * before);
  EXPECT_EQ(time.expected(1).count(), static_cast<std::int64_t>(before));
  time.on_answer(kStart, microseconds(100), 1);
  EXPECT_LE(time.weight(kStart, 1, microseconds(1)), before + 1);
}

TEST(ServiceTime, WhatIsOldFadesSoThatASlowHolderIsTriedAgain) {
  ServiceTime time;
  time.on_answer(kStart, seconds(10), 1);
  const std::uint64_t fresh = time.weight(kStart, 1, microseconds(1));
  EXPECT_EQ(time.weight(kStart + seconds(30), 1, microseconds(1)), fresh / 2);
  EXPECT_EQ(time.weight(kStart + std::chrono::hours(5), 1, microseconds(1)), 1U);
}

TEST(ServiceTime, ExtremesStayWithinRange) {
  ServiceTime time;
  time.on_answer(kStart, std::chrono::hours(10'000), UINT32_MAX);
  time.on_answer(kStart, microseconds(0), 0);
  time.on_answer(kStart, microseconds(-5), 1);
  EXPECT_GE(time.expected(UINT32_MAX).count(), 0);
  EXPECT_GE(time.p95(1).count(), 0);
  for (int i = 0; i < 100; ++i) time.on_stall(kStart);
  EXPECT_GE(time.weight(kStart, UINT32_MAX, microseconds(1)), 1U);
}

}  // namespace
}  // namespace tenzro::ledger
