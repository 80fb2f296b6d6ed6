#include "tenzro/fetch/token_bucket.hpp"

#include <gtest/gtest.h>

namespace tenzro::fetch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(TokenBucket, RateZeroIsNoLimit) {
  TokenBucket bucket(0, 10);
  const Instant now{seconds(5)};
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(bucket.take(now, UINT64_MAX));
  EXPECT_EQ(bucket.when(now, UINT64_MAX), now);
}

TEST(TokenBucket, HoldsOneSecondAndFillsAtItsRate) {
  TokenBucket bucket(1000, 10);
  const Instant start{seconds(5)};
  EXPECT_TRUE(bucket.take(start, 1000));
  EXPECT_FALSE(bucket.take(start, 1));
  EXPECT_FALSE(bucket.take(start + milliseconds(100), 101));
  EXPECT_TRUE(bucket.take(start + milliseconds(100), 100));
  EXPECT_FALSE(bucket.take(start + seconds(1000), 1001));
  EXPECT_TRUE(bucket.take(start + seconds(1000), 1000));
}

TEST(TokenBucket, LargestRequestCanEverGo) {
  TokenBucket bucket(1, 100);
  const Instant start{seconds(5)};
  EXPECT_TRUE(bucket.take(start, 100));
  const Instant ready = bucket.when(start, 100);
  EXPECT_FALSE(bucket.take(start + seconds(99), 100));
  EXPECT_TRUE(bucket.take(ready, 100));
  EXPECT_LE(ready, start + seconds(101));
}

TEST(TokenBucket, ItIsReadyWhenItSaysAndNotBefore) {
  TokenBucket bucket(333, 10);
  Instant now{seconds(5)};
  ASSERT_TRUE(bucket.take(now, 333));
  for (int i = 0; i < 1000; ++i) {
    const Instant ready = bucket.when(now, 7);
    ASSERT_GT(ready, now);
    now = ready;
    ASSERT_TRUE(bucket.take(now, 7)) << i;
  }
  EXPECT_GE(now, Instant{seconds(5)} + seconds(21));  // 7000 bytes at 333 a second
  EXPECT_LE(now, Instant{seconds(5)} + seconds(22));
}

TEST(TokenBucket, MicrosecondsAreNotLost) {
  TokenBucket bucket(1000, 10);
  Instant now{seconds(5)};
  ASSERT_TRUE(bucket.take(now, 1000));
  std::uint64_t taken = 0;
  for (int i = 0; i < 100'000; ++i) {  // ten microseconds each: a hundredth of a byte
    now = now + std::chrono::microseconds(10);
    if (bucket.take(now, 1)) ++taken;
  }
  EXPECT_GE(taken, 990U);
  EXPECT_LE(taken, 1000U);
}

TEST(TokenBucket, ClockThatStandsStillOrGoesBackGivesNothing) {
  TokenBucket bucket(1000, 10);
  ASSERT_TRUE(bucket.take(Instant{seconds(5)}, 1000));
  EXPECT_FALSE(bucket.take(Instant{seconds(5)}, 1));
  EXPECT_FALSE(bucket.take(Instant{seconds(4)}, 1));
}

}  // namespace
}  // namespace tenzro::fetch
