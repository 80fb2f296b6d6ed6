#include "tenzro/repair/absent.hpp"

#include <gtest/gtest.h>

#include "mesh_view.hpp"

namespace tenzro::repair {
namespace {

using std::chrono::seconds;

TEST(Absent, CountsForItsTimeAndNoLonger) {
  Absent absent(seconds(100));
  absent.on_gone(Instant{seconds(5)}, address(1), {{"m", {{0, 1}, {0, 2}}}});
  absent.on_tick(Instant{seconds(104)});
  ASSERT_EQ(absent.holders_of("m").size(), 1U);
  EXPECT_EQ(absent.holders_of("m")[0].address, address(1));
  EXPECT_EQ(absent.holders_of("m")[0].slots->size(), 2U);
  EXPECT_TRUE(absent.holders_of("other").empty());
  absent.on_tick(Instant{seconds(105)});
  EXPECT_TRUE(absent.holders_of("m").empty());
}

TEST(Absent, GoingAgainAddsWhatWasDeclaredAndNoTime) {
  Absent absent(seconds(100));
  absent.on_gone(Instant{seconds(0)}, address(1), {{"m", {{0, 1}}}});
  absent.on_gone(Instant{seconds(90)}, address(1), {{"m", {{0, 2}}}});
  EXPECT_EQ(absent.holders_of("m")[0].slots->size(), 2U);
  absent.on_tick(Instant{seconds(100)});
  EXPECT_EQ(absent.size(), 0U);
}

TEST(Absent, BeyondTheBoundTheFirstToEndIsLost) {
  Absent absent(seconds(100));
  for (std::size_t i = 0; i <= Absent::kProvidersMax; ++i) {
    ProviderAddress gone{};
    gone[0] = static_cast<std::uint8_t>(i);
    gone[1] = static_cast<std::uint8_t>(i >> 8U);
    absent.on_gone(Instant{seconds(i)}, gone, {{"m", {{0, 1}}}});
  }
  EXPECT_EQ(absent.size(), Absent::kProvidersMax);
  for (const Absent::Holder& holder : absent.holders_of("m"))
    EXPECT_NE(holder.address, ProviderAddress{});
}

TEST(Absent, WithoutGraceOrHoldingsNothingIsKept) {
  Absent none(Duration{0});
  none.on_gone(Instant{}, address(1), {{"m", {{0, 1}}}});
  EXPECT_EQ(none.size(), 0U);
  Absent some(seconds(1));
  some.on_gone(Instant{}, address(1), {});
  EXPECT_EQ(some.size(), 0U);
}

}  // namespace
}  // namespace tenzro::repair
