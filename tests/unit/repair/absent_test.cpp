#include "tenzro/repair/absent.hpp"

#include <gtest/gtest.h>

#include "mesh_view.hpp"

namespace tenzro::repair {
namespace {

using std::chrono::seconds;

TEST(Absent, CountsForItsTimeAndNoLonger) {
  Absent absent(seconds(100));
  absent.on_gone(Instant{seconds(5)}, address(1), {{"m", {{0, 1}, {0, 2}}}}, Instant{});
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
  absent.on_gone(Instant{seconds(0)}, address(1), {{"m", {{0, 1}}}}, Instant{});
  absent.on_gone(Instant{seconds(90)}, address(1), {{"m", {{0, 2}}}}, Instant{});
  EXPECT_EQ(absent.holders_of("m")[0].slots->size(), 2U);
  absent.on_tick(Instant{seconds(100)});
  EXPECT_EQ(absent.size(), 0U);
}

TEST(Absent, BeyondTheBoundWhoWasKnownForTheShortestTimeIsLost) {
  Absent absent(seconds(1000));
  absent.on_gone(Instant{seconds(500)}, address(1), {{"m", {{0, 1}}}}, Instant{seconds(10)});
  for (std::size_t i = 0; i < 2 * Absent::kProvidersMax; ++i) {
    ProviderAddress gone{};
    gone[0] = static_cast<std::uint8_t>(i);
    gone[1] = static_cast<std::uint8_t>(i >> 8U);
    absent.on_gone(Instant{seconds(501 + i)}, gone, {{"m", {{0, 1}}}}, Instant{seconds(400)});
  }
  absent.on_gone(Instant{seconds(1400)}, address(2), {{"m", {{0, 1}}}}, Instant{seconds(20)});
  EXPECT_EQ(absent.size(), Absent::kProvidersMax);
  std::set<ProviderAddress> kept;
  for (const Absent::Holder& holder : absent.holders_of("m")) kept.insert(holder.address);
  EXPECT_TRUE(kept.contains(address(1)));
  EXPECT_TRUE(kept.contains(address(2)));
  // Of the others, who went first.
  EXPECT_TRUE(kept.contains(ProviderAddress{}));
}

TEST(Absent, WithoutGraceOrHoldingsNothingIsKept) {
  Absent none(Duration{0});
  none.on_gone(Instant{}, address(1), {{"m", {{0, 1}}}}, Instant{});
  EXPECT_EQ(none.size(), 0U);
  Absent some(seconds(1));
  some.on_gone(Instant{}, address(1), {}, Instant{});
  EXPECT_EQ(some.size(), 0U);
}

}  // namespace
}  // namespace tenzro::repair
