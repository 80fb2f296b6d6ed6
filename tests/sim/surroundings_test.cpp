// Clocks, links and disks that misbehave around a healthy process.
#include <gtest/gtest.h>

#include "sim/mesh.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

void expect_bits(Mesh& mesh, std::uint64_t forward) {
  const auto call = mesh_forward(forward, 8);
  const auto answer = mesh.forward(call);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(bits_of(*answer), mesh.expected(call));
}

bool has_notice(const SimNode& node, std::string_view text) {
  return std::ranges::any_of(node.notices(), [&](const std::string& notice) {
    return notice.find(text) != std::string::npos;
  });
}

class MeshClock : public ::testing::TestWithParam<int> {};

TEST_P(MeshClock, SetByLessThanTheToleranceLosesNobody) {
  for (const std::size_t node : {0U, 2U}) {
    Mesh mesh({.nodes = 5, .replicas = 2});
    mesh.world.at(node).set_clock(seconds(GetParam()));
    for (std::uint64_t i = 0; i < 12; ++i) {
      mesh.world.run_for(seconds(7));
      EXPECT_TRUE(mesh.knows_all(0)) << "node " << node << ", " << i;
      expect_bits(mesh, i);
    }
  }
}

TEST_P(MeshClock, SetBeforeARestartLetsTheNodeBackIn) {
  Mesh mesh({.nodes = 4, .replicas = 2});
  mesh.world.crash(2);
  mesh.world.run_for(seconds(5));
  mesh.world.at(2).set_clock(seconds(GetParam()));
  mesh.world.restart(2);
  EXPECT_TRUE(mesh.wait_until([&] { return mesh.knows_all(0) && mesh.knows_all(3); }, seconds(60)));
  expect_bits(mesh, 1);
}

INSTANTIATE_TEST_SUITE_P(Seconds, MeshClock, ::testing::Values(-45, -20, 20, 45));

TEST(MeshClockFarOff, IsSaidAndOnceSetRightTheNodeIsBack) {
  for (const minutes off : {minutes(-60), minutes(60)}) {
    Mesh mesh({.nodes = 4, .replicas = 2});
    mesh.world.at(2).set_clock(off);
    mesh.world.run_for(seconds(60));
    expect_bits(mesh, 1);
    EXPECT_TRUE(has_notice(mesh.world.at(0), "clock")) << off.count();
    mesh.world.at(2).set_clock(minutes(0));
    EXPECT_TRUE(mesh.wait_until([&] { return mesh.knows_all(0); }, seconds(120))) << off.count();
    expect_bits(mesh, 2);
  }
}

TEST(MeshClog, IsHedgedAroundAndWhatComesLateChangesNothing) {
  for (const bool towards_holder : {true, false}) {
    Mesh mesh({.nodes = 4, .replicas = 2});
    for (std::uint64_t i = 0; i < 8; ++i) expect_bits(mesh, i);
    if (towards_holder) {
      mesh.world.clog(0, 2);
    } else {
      mesh.world.clog(2, 0);
    }
    const Instant begin = mesh.world.now();
    expect_bits(mesh, 100);
    EXPECT_LT(mesh.world.now() - begin, milliseconds(150));
    mesh.world.heal();
    mesh.world.run_for(seconds(2));
    expect_bits(mesh, 101);
    EXPECT_TRUE(mesh.knows_all(0));
  }
}

TEST(MeshFullDisk, KeepsServingWhatItHolds) {
  Mesh mesh({.nodes = 3, .replicas = 1});
  for (const std::size_t node : {1U, 2U}) {
    mesh.world.at(node).store_fault = [](const work::StoreOp&) -> Status {
      return fail(ErrorCode::io, "", "no space left on device");
    };
  }
  mesh.world.run_for(seconds(60));
  for (std::uint64_t i = 0; i < 4; ++i) expect_bits(mesh, i);
}

}  // namespace
}  // namespace tenzro::testing
