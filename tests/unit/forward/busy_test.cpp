// Holders that are busy: who is asked instead, and when they are asked again.
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/exec_message.hpp"

#include "scripted_mesh.hpp"

namespace tenzro::forward {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// As a holder that is busy sends it: one part.
BufferRef busy_for(std::uint32_t retry_after_ms) {
  return wire::encode_exec_reply({.status = wire::ExecStatus::busy,
                                  .retry_after_ms = retry_after_ms,
                                  .text = "256 requests"})
      .front();
}

TEST(Busy, BusyHolderIsNoFailureAndTheStandbyServes) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0});
  mesh.fly(mesh.request(), {{0}});
  ASSERT_EQ(mesh.sent().size(), 1U);
  const std::uint8_t first = mesh.holder_of(0);
  mesh.reject(0, ErrorCode::busy);
  ASSERT_EQ(mesh.sent().size(), 2U);
  EXPECT_NE(mesh.holder_of(1), first);
  EXPECT_EQ(mesh.standings().find(address(first))->streak, 0U);
  EXPECT_TRUE(mesh.standings().is_busy(mesh.now(), address(first)));
  mesh.answer(1);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ((*mesh.outcome())->tally.failures, 0U);
}

TEST(Busy, HolderThatIsBusyIsNotAskedAgainBeforeItSaid) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.fly(mesh.request(), {{0}});
  const Instant told = mesh.now();
  mesh.reply(0, busy_for(700));
  EXPECT_TRUE(mesh.standings().is_busy(told + milliseconds(699), address(1)));
  EXPECT_FALSE(mesh.standings().is_busy(told + milliseconds(700), address(1)));
  EXPECT_EQ(mesh.standings().find(address(1))->streak, 0U);
  while (mesh.sent().size() == 1 && !mesh.outcome()) mesh.step();
  EXPECT_GE(mesh.now(), told + milliseconds(700));
  mesh.answer(1);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
}

TEST(Busy, HolderCannotSayThatItIsBusyForDays) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {0});
  mesh.fly(mesh.request(), {{0}});
  const std::uint8_t first = mesh.holder_of(0);
  mesh.reply(0, busy_for(UINT32_MAX));
  EXPECT_TRUE(mesh.standings().is_busy(mesh.now() + seconds(59), address(first)));
  EXPECT_FALSE(mesh.standings().is_busy(mesh.now() + seconds(60), address(first)));
}

TEST(Busy, WhereAllAreBusyTheForwardWaitsAndAsksAgain) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.fly(mesh.request(), {{0}});
  mesh.reject(0, ErrorCode::busy);
  EXPECT_EQ(mesh.sent().size(), 1U);
  EXPECT_FALSE(mesh.outcome().has_value());
  for (int i = 0; i < 3 && mesh.sent().size() == 1; ++i) mesh.step();
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1, 1}));
  EXPECT_LE(mesh.now(), Instant{seconds(100)} + milliseconds(400));
  mesh.answer(1);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ((*mesh.outcome())->tally.replans, 0U) << "waiting is not replanning";
}

TEST(Busy, ForwardAgainstAHolderThatIsAlwaysBusyEndsWithBusy) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.fly(mesh.request(), {{0}});
  for (std::size_t i = 0; i < 200 && !mesh.outcome(); ++i) {
    if (!mesh.sent().back().is_over) {
      mesh.reject(mesh.sent().size() - 1, ErrorCode::busy);
    } else {
      mesh.step();
    }
  }
  ASSERT_TRUE(mesh.outcome().has_value());
  EXPECT_EQ(mesh.outcome()->error().code, ErrorCode::busy);
  EXPECT_NE(mesh.outcome()->error().message().find(to_hex(address(1))), std::string::npos)
      << "the holder is named";
  EXPECT_EQ(mesh.standings().find(address(1))->streak, 0U);
}

}  // namespace
}  // namespace tenzro::forward
