// Scripted faults: what each of them costs a forward, and that none costs it a bit.
#include <gtest/gtest.h>

#include "sim/mesh.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Begins a forward on node 0 and lets the mesh work on it for a moment.
RequestId begin_and_run(Mesh& mesh, const rpc::ForwardCall& call, Duration time) {
  const RequestId request = mesh.world.begin(0, call);
  mesh.world.run_for(time);
  return request;
}

/// The answer of a forward in progress, and how long it took from now on.
std::pair<Result<rpc::Answer>, Duration> finish(Mesh& mesh, RequestId request) {
  const Instant begin = mesh.world.now();
  std::optional<Result<rpc::Answer>> answer;
  mesh.world.run_until(
      [&] {
        answer = mesh.world.answer(0, request);
        return answer.has_value();
      },
      seconds(60));
  if (!answer) answer = fail(ErrorCode::internal, "", "the call was never answered");
  return {std::move(*answer), mesh.world.now() - begin};
}

void expect_same_bits(Mesh& mesh, const rpc::ForwardCall& call, const Result<rpc::Answer>& answer) {
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(bits_of(std::get<rpc::ForwardAnswer>(*answer)), mesh.expected(call));
}

TEST(MeshFaults, RouterThatHoldsNothingAnswersWithTheBitsOfOneNode) {
  for (const auto type : {tensor::WeightType::q8_0, tensor::WeightType::f32}) {
    Mesh mesh({.type = type});
    const auto call = mesh_forward(3, 17);
    const auto answer = mesh.forward(call);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(bits_of(*answer), mesh.expected(call));
    EXPECT_EQ(answer->carrier, type == tensor::WeightType::q8_0 ? "q8" : "dense");
    EXPECT_GT(answer->transports_iroh, 0U);
    EXPECT_EQ(answer->transports_local, 0U);
  }
}

TEST(MeshFaults, HolderKilledInTheMiddleCostsMillisecondsAndNoBit) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Mesh mesh({.seed = seed});
    const auto call = mesh_forward(seed, 24);
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(mesh.forward(mesh_forward(100 + i, 24)));
    const RequestId request = begin_and_run(mesh, call, milliseconds(1));
    mesh.world.crash(1 + seed % 3);
    const auto [answer, time] = finish(mesh, request);
    expect_same_bits(mesh, call, answer);
    EXPECT_LT(time, milliseconds(150)) << "seed " << seed;
  }
}

TEST(MeshFaults, StoppedHolderIsHedgedAround) {
  Mesh mesh({});
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(mesh.forward(mesh_forward(100 + i, 8)));
  mesh.world.stop(2);
  const auto call = mesh_forward(5, 8);
  const RequestId request = mesh.world.begin(0, call);
  const auto [answer, time] = finish(mesh, request);
  expect_same_bits(mesh, call, answer);
  EXPECT_LT(time, milliseconds(150));
}

TEST(MeshFaults, EveryHolderOfAnExpertGoneFailsClosedByName) {
  Mesh mesh({.nodes = 3, .replicas = 1});
  mesh.world.crash(1);
  const auto answer = mesh.forward(mesh_forward(6, 32));
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message().find("expert l0/e"), std::string::npos)
      << answer.error().message();
}

TEST(MeshFaults, PartialAnswerListsWhatIsMissing) {
  Mesh mesh({.nodes = 5, .replicas = 1, .tune = [](std::size_t, node::Options& options) {
               options.min_kept_mass = 0.01;
             }});
  // The shared expert may not be missing: kill a holder that has routed ones only.
  const std::size_t shared_holder = mesh.holders_of(kMeshExperts).front();
  const std::size_t victim = shared_holder == 1 ? 2 : 1;
  mesh.world.crash(victim);
  auto call = mesh_forward(7, 4);
  call.allow_partial = true;
  const auto answer = mesh.forward(call);
  ASSERT_TRUE(answer) << answer.error().message();
  for (const auto& gap : answer->missing) {
    EXPECT_EQ(mesh.holders_of(gap.slot.expert).front(), victim);
  }
}

TEST(MeshFaults, ResetsNeverReachTheClient) {
  Mesh mesh({.nodes = 5, .replicas = 4});
  mesh.world.link().reset_per_mille = 30;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const auto call = mesh_forward(i, 6);
    const auto answer = mesh.forward(call);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(bits_of(*answer), mesh.expected(call));
  }
}

TEST(MeshFaults, OneSlowHolderCostsLittleTimeAndLittleWork) {
  Mesh mesh({.nodes = 4, .replicas = 3});
  const auto measure = [&](std::uint64_t first) {
    std::vector<Duration> times;
    for (std::uint64_t i = 0; i < 200; ++i) {
      const Instant begin = mesh.world.now();
      EXPECT_TRUE(mesh.forward(mesh_forward(first + i, 8)));
      times.push_back(mesh.world.now() - begin);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() * 99 / 100];
  };
  const Duration healthy = measure(0);
  const std::uint64_t before = mesh.world.calls_sent(wire::Protocol::exec);
  mesh.world.slow_link(3, milliseconds(200));
  // Time to learn: the first calls to a holder that was fast until now do wait for the hedge.
  measure(1000);
  const std::uint64_t learnt = mesh.world.calls_sent(wire::Protocol::exec);
  const Duration slow = measure(2000);
  const std::uint64_t after = mesh.world.calls_sent(wire::Protocol::exec);
  EXPECT_LE(slow, healthy * 13 / 10);
  EXPECT_LE(static_cast<double>(after - learnt), static_cast<double>(before) * 1.05);
}

TEST(MeshFaults, ClientThatLeavesFreesTheHolders) {
  Mesh mesh({});
  mesh.world.at(1).slowness_percent = 100'000;
  const RequestId request = begin_and_run(mesh, mesh_forward(9, 24), milliseconds(5));
  mesh.world.cancel(0, request);
  mesh.world.run_for(seconds(5));
  for (std::size_t i = 0; i < mesh.world.size(); ++i) {
    EXPECT_EQ(mesh.world.at(i).node().requests_in_progress(), 0U) << "node " << i;
  }
}

TEST(MeshFaults, RouterPastItsDeadlineSaysSo) {
  Mesh mesh({.nodes = 3, .replicas = 1, .tune = [](std::size_t, node::Options& options) {
               options.forward_deadline = milliseconds(300);
             }});
  mesh.world.stop(1);
  mesh.world.stop(2);
  const auto answer = mesh.forward(mesh_forward(10, 4));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message(), "moe forward: deadline exceeded");
}

TEST(MeshFaults, RestartedHolderServesAgainWithoutALoad) {
  Mesh mesh({.nodes = 3, .replicas = 1});
  mesh.world.crash(1);
  mesh.world.run_for(seconds(60));
  EXPECT_FALSE(mesh.knows_all(0));
  mesh.world.restart(1);
  EXPECT_TRUE(mesh.wait_until([&] { return mesh.knows_all(0); }, seconds(60)));
  const auto call = mesh_forward(11, 16);
  const auto answer = mesh.forward(call);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(bits_of(*answer), mesh.expected(call));
}

TEST(MeshFaults, RollingRestartThatSaysGoodbyeFailsNoRequest) {
  Mesh mesh({.nodes = 4, .replicas = 2});
  std::uint64_t next = 0;
  const auto serve_for = [&](Duration time) {
    const Instant end = mesh.world.now() + time;
    while (mesh.world.now() < end) {
      const auto call = mesh_forward(++next, 4);
      const auto answer = mesh.forward(call);
      ASSERT_TRUE(answer) << answer.error().message();
      ASSERT_EQ(bits_of(*answer), mesh.expected(call));
      mesh.world.run_for(milliseconds(20));
    }
  };
  for (std::size_t i = 1; i < mesh.world.size(); ++i) {
    mesh.world.at(i).deliver(
        [&](node::Node& node, node::Outbox& out) { node.leave(mesh.world.now(), out); });
    serve_for(seconds(1));
    mesh.world.crash(i);
    serve_for(seconds(3));
    mesh.world.restart(i);
    ASSERT_TRUE(mesh.wait_until([&] { return mesh.knows_all(0); }, seconds(60)));
    serve_for(seconds(1));
  }
}

}  // namespace
}  // namespace tenzro::testing
