#include "tenzro/holder/meter.hpp"

#include <gtest/gtest.h>

namespace tenzro::holder {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Meter, RateIsTheSumOfTheLastMinuteOverSixty) {
  Meter meter;
  meter.count(Instant{seconds(10)}, 600);
  meter.count(Instant{seconds(10) + milliseconds(900)}, 600);
  EXPECT_EQ(meter.rate(Instant{seconds(11)}), 20U);
  EXPECT_EQ(meter.rate(Instant{seconds(69)}), 20U);
  EXPECT_EQ(meter.rate(Instant{seconds(70)}), 0U);
}

TEST(Meter, OldBucketsAreForgottenWhenTheirSecondComesAgain) {
  Meter meter;
  meter.count(Instant{seconds(0)}, 6000);
  meter.count(Instant{seconds(60)}, 60);
  EXPECT_EQ(meter.rate(Instant{seconds(60)}), 1U);
}

TEST(Meter, FreshMeterIsZero) {
  EXPECT_EQ(Meter{}.rate(Instant{}), 0U);
}

}  // namespace
}  // namespace tenzro::holder
