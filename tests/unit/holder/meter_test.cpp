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

TEST(ServiceMeter, ARowTakesItsShareOfTheBusyTimeHoweverManyJobsRan) {
  ServiceMeter meter;
  meter.on_begin(Instant{seconds(10)});
  meter.on_begin(Instant{seconds(10) + milliseconds(4)});
  EXPECT_EQ(meter.jobs(), 2U);
  meter.on_end(Instant{seconds(10) + milliseconds(6)}, 4);
  meter.on_end(Instant{seconds(10) + milliseconds(10)}, 6);
  meter.on_begin(Instant{seconds(20)});  // idle time in between does not count
  meter.on_end(Instant{seconds(20) + milliseconds(10)}, 10);
  EXPECT_EQ(meter.row_time_ns(Instant{seconds(21)}), 1'000'000U);
  EXPECT_EQ(meter.jobs(), 0U);
}

TEST(ServiceMeter, IsZeroAfterAnIdleMinuteAndAFailedJobHasNoRows) {
  ServiceMeter meter;
  meter.on_begin(Instant{seconds(1)});
  meter.on_end(Instant{seconds(2)}, 0);
  EXPECT_EQ(meter.row_time_ns(Instant{seconds(2)}), 0U);
  meter.on_begin(Instant{seconds(2)});
  meter.on_end(Instant{seconds(3)}, 1);
  EXPECT_EQ(meter.row_time_ns(Instant{seconds(3)}), 2'000'000'000U);
  EXPECT_EQ(meter.row_time_ns(Instant{seconds(64)}), 0U);
}

TEST(Meter, FreshMeterIsZero) {
  EXPECT_EQ(Meter{}.rate(Instant{}), 0U);
}

}  // namespace
}  // namespace tenzro::holder
