#include "loop_share.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace tenzro::daemon {
namespace {

Instant at(std::int64_t us) {
  return Instant{Duration{us}};
}

TEST(LoopShare, ABurstIsTakenAndThenHalfOfTheTime) {
  LoopShare share;
  std::int64_t now = 1'000'000;
  std::int64_t spent = 0;
  while (share.has_room(at(now))) {
    share.spend(at(now), at(now + 100));
    now += 100;
    spent += 100;
  }
  // Each job takes its time and owes as much again.
  EXPECT_EQ(spent, 600);
  std::int64_t later = 0;
  for (std::int64_t end = now + 100'000; now < end;) {
    if (!share.has_room(at(now))) {
      now += 10;
      continue;
    }
    share.spend(at(now), at(now + 100));
    now += 100;
    later += 100;
  }
  EXPECT_NEAR(static_cast<double>(later), 50'000.0, 200.0);
}

TEST(LoopShare, WhatWasNotTakenIsNotSavedUp) {
  LoopShare share;
  std::int64_t now = 60'000'000;
  std::int64_t spent = 0;
  for (; share.has_room(at(now)); now += 50, spent += 50) share.spend(at(now), at(now + 50));
  EXPECT_LE(spent, 600);
}

}  // namespace
}  // namespace tenzro::daemon
