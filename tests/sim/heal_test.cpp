// Real nodes: copies that went come back elsewhere, a drain loses nothing, surplus goes only
// against proof.
#include <gtest/gtest.h>

#include "sim/mesh.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kExperts = kMeshExperts + 1;

MeshSetup healing(std::uint64_t seed, std::size_t nodes, std::size_t replicas) {
  MeshSetup setup{.seed = seed, .nodes = nodes, .replicas = replicas};
  setup.disk_bytes = 1U << 30U;
  setup.by_uri = true;
  setup.tune = [replicas](std::size_t, node::Options& options) {
    options.repair.interval = seconds(5);
    options.repair.grace = seconds(20);
    options.policy.min_replication = static_cast<std::uint32_t>(replicas);
  };
  return setup;
}

/// How many experts have that many holders that are up, as the node's shard map has it.
std::size_t count_with(Mesh& mesh, std::size_t index, std::size_t replicas) {
  const auto answer =
      mesh.world.call(index, rpc::ShardMapCall{mesh_gate_load(mesh.layer).key.model});
  std::size_t count = 0;
  if (!answer) return count;
  for (const auto& row : std::get<rpc::ShardMapAnswer>(*answer).holders) {
    if (row.holders.size() == replicas) ++count;
  }
  return count;
}

std::uint64_t blob_calls(Mesh& mesh) {
  return mesh.world.calls_sent(wire::Protocol::blob);
}

void expect_same_bits(Mesh& mesh, std::uint64_t forward) {
  const auto call = mesh_forward(forward, 6);
  const auto answer = mesh.forward(call);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(bits_of(*answer), mesh.expected(call));
}

class MeshHeals : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(MeshHeals, AfterAHolderIsLostForGood) {
  Mesh mesh(healing(GetParam(), 6, 2));
  mesh.world.run_for(seconds(40));
  EXPECT_EQ(blob_calls(mesh), 0U);
  mesh.world.crash(2);
  ASSERT_TRUE(mesh.wait_until([&] { return count_with(mesh, 0, 2) < kExperts; }, seconds(60)));
  ASSERT_TRUE(mesh.wait_until([&] { return count_with(mesh, 0, 2) == kExperts; }, seconds(120)));
  mesh.world.run_for(seconds(60));
  EXPECT_EQ(count_with(mesh, 0, 2), kExperts);  // and nobody took one too many
  mesh.world.crash(3);
  mesh.world.run_for(seconds(50));
  expect_same_bits(mesh, 1);  // what was fetched serves
}

TEST_P(MeshHeals, WithoutMovingAnythingWhenHalfOfItRestarts) {
  Mesh mesh(healing(GetParam(), 6, 2));
  mesh.world.run_for(seconds(40));
  for (const std::size_t node : {1U, 3U, 5U}) mesh.world.crash(node);
  mesh.world.run_for(seconds(45));
  for (const std::size_t node : {1U, 3U, 5U}) mesh.world.restart(node);
  mesh.world.run_for(seconds(120));
  EXPECT_EQ(blob_calls(mesh), 0U);
  EXPECT_EQ(count_with(mesh, 0, 2), kExperts);
  expect_same_bits(mesh, 2);
}

TEST_P(MeshHeals, ThoughTheChosenHolderCannotWrite) {
  Mesh mesh(healing(GetParam(), 6, 2));
  mesh.world.at(4).store_fault = [](const work::StoreOp& op) -> Status {
    if (std::holds_alternative<work::OpenPartial>(op))
      return fail(ErrorCode::no_space, "", "the disk is full");
    return {};
  };
  mesh.world.run_for(seconds(40));
  mesh.world.crash(2);
  mesh.world.run_for(seconds(60));
  EXPECT_TRUE(mesh.wait_until([&] { return count_with(mesh, 0, 2) == kExperts; }, seconds(180)));
}

TEST_P(MeshHeals, WithinTheDisksOfAll) {
  MeshSetup setup = healing(GetParam(), 5, 2);
  // Room for one expert more than any of them holds.
  const std::uint64_t expert = make_mesh_layer(GetParam()).experts[0].size();
  setup.disk_bytes = expert * (2 * kExperts / 4 + 2);
  Mesh mesh(setup);
  mesh.world.run_for(seconds(40));
  mesh.world.crash(1);
  mesh.world.run_for(seconds(180));
  for (std::size_t i = 0; i < mesh.world.size(); ++i)
    EXPECT_LE(mesh.world.at(i).stored_bytes(), setup.disk_bytes);
  expect_same_bits(mesh, 3);
}

TEST_P(MeshHeals, ADrainedNodeLeavesNothingBehindThatOnlyItHeld) {
  Mesh mesh(healing(GetParam(), 5, 1));
  mesh.world.run_for(seconds(40));
  ASSERT_TRUE(mesh.world.call(2, rpc::NodeDrainCall{}));
  const auto status = mesh.world.call(2, rpc::NodeStatusCall{});
  ASSERT_TRUE(status);
  ASSERT_TRUE(std::get<rpc::NodeStatusAnswer>(*status).drain.has_value());
  std::uint64_t forwards = 0;
  while (!mesh.world.at(2).node().is_drained() && forwards < 2000) {
    expect_same_bits(mesh, 100 + forwards++);
    mesh.world.run_for(milliseconds(100));
  }
  EXPECT_TRUE(mesh.world.at(2).node().is_drained());
  EXPECT_GT(forwards, 5U);
  mesh.world.at(2).deliver([&](node::Node& node, node::Outbox& out) {
    node.drain();
    node.leave(mesh.world.now(), out);
  });
  mesh.world.run_for(milliseconds(1500));
  mesh.world.crash(2);
  for (std::uint64_t i = 0; i < 10; ++i) expect_same_bits(mesh, 5000 + i);
  EXPECT_EQ(count_with(mesh, 0, 1), kExperts);
}

TEST_P(MeshHeals, BoundsTheTimeOfADrainThatNobodyCanHelp) {
  MeshSetup setup = healing(GetParam(), 4, 1);
  setup.disk_bytes = 0;  // nobody takes anything
  Mesh mesh(setup);
  mesh.world.run_for(seconds(40));
  ASSERT_TRUE(mesh.world.call(2, rpc::NodeDrainCall{.limit_s = 30}));
  mesh.world.run_for(seconds(29));
  EXPECT_FALSE(mesh.world.at(2).node().is_drained());
  expect_same_bits(mesh, 7);
  mesh.world.run_for(seconds(2));
  EXPECT_TRUE(mesh.world.at(2).node().is_drained());
}

TEST_P(MeshHeals, ADrainWaitsForNodesThatWereThereAMomentAgo) {
  MeshSetup setup = healing(GetParam(), 4, 1);
  setup.tune = [](std::size_t, node::Options& options) {
    options.repair.interval = seconds(5);
    options.repair.grace = seconds(300);
    options.policy.min_replication = 1;
  };
  Mesh mesh(setup);
  mesh.world.run_for(seconds(40));
  for (const std::size_t node : {0U, 1U, 3U}) mesh.world.crash(node);
  mesh.world.run_for(seconds(60));
  ASSERT_TRUE(mesh.world.call(2, rpc::NodeDrainCall{.limit_s = 50}));
  mesh.world.run_for(seconds(45));
  EXPECT_FALSE(mesh.world.at(2).node().is_drained());
  mesh.world.run_for(seconds(10));
  EXPECT_TRUE(mesh.world.at(2).node().is_drained()) << "its limit is over";
}

TEST_P(MeshHeals, SurplusGoesOnlyWhereTheOthersProveToHaveTheBytes) {
  for (const bool is_lying : {false, true}) {
    MeshSetup setup = healing(GetParam(), 4, 3);
    setup.tune = [](std::size_t, node::Options& options) {
      options.repair.interval = seconds(5);
      options.repair.grace = seconds(20);
      options.policy = {1, 2, 1000};
    };
    Mesh mesh(setup);
    // It declares what it has lost: every drop would count on its copy, or be its own.
    if (is_lying) mesh.world.at(1).store().blobs().clear();
    mesh.world.run_for(seconds(200));
    EXPECT_EQ(count_with(mesh, 0, is_lying ? 3 : 2), kExperts) << is_lying;
  }
}

TEST_P(MeshHeals, SurplusStaysWhileProofIsRefusedAsBusyAndGoesOnceItIsGiven) {
  MeshSetup setup = healing(GetParam(), 4, 3);
  setup.tune = [](std::size_t, node::Options& options) {
    options.repair.interval = seconds(5);
    options.repair.grace = seconds(20);
    options.policy = {1, 2, 1000};
  };
  Mesh mesh(setup);
  // One of the three holders of every expert: of whichever proof, it is asked or it asks.
  bool is_busy = true;
  std::uint64_t refused = 0;
  mesh.world.at(1).store_fault = [&](const work::StoreOp& op) -> Status {
    if (!is_busy || !std::holds_alternative<work::ReadBlobRange>(op)) return {};
    ++refused;
    return fail(ErrorCode::busy, "", "the store has too much to do");
  };
  mesh.world.run_for(seconds(100));
  EXPECT_GE(refused, kExperts);
  EXPECT_EQ(count_with(mesh, 0, 3), kExperts);
  expect_same_bits(mesh, 8);
  is_busy = false;
  mesh.world.run_for(seconds(200));
  EXPECT_EQ(count_with(mesh, 0, 2), kExperts);
  expect_same_bits(mesh, 9);
}

TEST_P(MeshHeals, TwoNodesThatAreDrainedTogetherDoNotRelyOnEachOther) {
  Mesh mesh(healing(GetParam(), 6, 2));
  const std::vector<std::size_t> leaving{2, 3};
  std::size_t only_on_these = 0;
  for (ExpertIndex e = 0; e < kMeshExperts; ++e)
    only_on_these += mesh.holders_of(e) == leaving ? 1U : 0U;
  ASSERT_GT(only_on_these, 0U);
  mesh.world.run_for(seconds(40));
  for (const std::size_t node : leaving) ASSERT_TRUE(mesh.world.call(node, rpc::NodeDrainCall{}));
  const auto are_drained = [&] {
    return mesh.world.at(2).node().is_drained() && mesh.world.at(3).node().is_drained();
  };
  for (std::uint64_t forward = 0; !are_drained() && forward < 2000; ++forward) {
    expect_same_bits(mesh, 100 + forward);
    mesh.world.run_for(milliseconds(100));
  }
  ASSERT_TRUE(are_drained());
  for (const std::size_t node : leaving) {
    mesh.world.at(node).deliver([&](node::Node& core, node::Outbox& out) {
      core.drain();
      core.leave(mesh.world.now(), out);
    });
  }
  mesh.world.run_for(milliseconds(1500));
  for (const std::size_t node : leaving) mesh.world.crash(node);
  for (std::uint64_t i = 0; i < 10; ++i) expect_same_bits(mesh, 5000 + i);
  EXPECT_EQ(count_with(mesh, 0, 1) + count_with(mesh, 0, 2), kExperts);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MeshHeals, ::testing::Range<std::uint64_t>(1, 5));

}  // namespace
}  // namespace tenzro::testing
