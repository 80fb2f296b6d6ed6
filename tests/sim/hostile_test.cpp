// Holders that lie: refused, counted, and served around.
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "sim/mesh.hpp"

namespace tenzro::testing {
namespace {

/// Forwards a few times and expects the single-node bits each time.
void expect_truth(Mesh& mesh) {
  for (std::uint64_t i = 0; i < 12; ++i) {
    const auto call = mesh_forward(i, 6);
    const auto answer = mesh.forward(call);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(bits_of(*answer), mesh.expected(call));
  }
}

/// What node `liar` computes is changed before it signs.
void corrupt_outputs(Mesh& mesh, std::size_t liar,
                     std::function<void(work::ExpertsResult&)> change) {
  mesh.world.at(liar).corrupt_job = [change = std::move(change)](const work::Job&,
                                                                 work::JobResult& result) {
    if (!result) return;
    if (auto* experts = std::get_if<work::ExpertsResult>(&*result)) change(*experts);
  };
}

BufferRef with_value(const BufferRef& rows, std::size_t index, float value) {
  BufferRef changed = BufferRef::copy_of(rows.bytes());
  changed.mutable_as<float>()[index] = value;
  return changed;
}

TEST(MeshHostile, HolderThatSignsNanIsAFailureOfThatHolder) {
  Mesh mesh({});
  corrupt_outputs(mesh, 1, [](work::ExpertsResult& result) {
    for (auto& output : result.outputs) {
      output.values = with_value(output.values, 0, std::numeric_limits<float>::quiet_NaN());
    }
  });
  expect_truth(mesh);
  EXPECT_GT(mesh.world.at(0).node().totals().peer_failures, 0U);
}

// A receipt binds rows as bf16, the upper half of an f32; what is below, the connection alone
// protects.
TEST(MeshHostile, EveryFlippedBitThatAReceiptBindsIsCaught) {
  Mesh mesh({.nodes = 4, .replicas = 3});
  Prng prng(5);
  mesh.world.tamper = [&](std::size_t from, wire::Protocol protocol,
                          std::vector<BufferRef>& parts) {
    if (from != 1 || protocol != wire::Protocol::exec || parts.empty()) return;
    BufferRef& part = parts[prng.below(parts.size())];
    if (part.empty()) return;
    BufferRef changed = BufferRef::copy_of(part.bytes());
    std::uint64_t at = prng.below(changed.size());
    if (changed.size() >= kMeshWidth * sizeof(float)) at |= 2U;
    changed.mutable_bytes()[at] ^= std::byte{1} << prng.below(8);
    part = std::move(changed);
  };
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto call = mesh_forward(i, 3);
    const auto answer = mesh.forward(call);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(bits_of(*answer), mesh.expected(call));
  }
}

TEST(MeshHostile, SomeoneElsesReplyIsRefused) {
  Mesh mesh({.nodes = 4, .replicas = 3});
  std::vector<BufferRef> kept;
  mesh.world.tamper = [&](std::size_t from, wire::Protocol protocol,
                          std::vector<BufferRef>& parts) {
    if (protocol != wire::Protocol::exec) return;
    if (from == 2) kept = parts;
    if (from == 1 && !kept.empty()) parts = kept;
  };
  expect_truth(mesh);
}

TEST(MeshHostile, ReplayOfAnOldReplyIsRefused) {
  Mesh mesh({.nodes = 3, .replicas = 2});
  std::optional<std::vector<BufferRef>> old;
  mesh.world.tamper = [&](std::size_t from, wire::Protocol protocol,
                          std::vector<BufferRef>& parts) {
    if (from != 1 || protocol != wire::Protocol::exec) return;
    if (!old) old = parts;
    parts = *old;
  };
  expect_truth(mesh);
}

TEST(MeshHostile, LiarLosesReputationAndGoesToQuarantine) {
  Mesh mesh({});
  corrupt_outputs(mesh, 1, [](work::ExpertsResult& result) {
    for (auto& output : result.outputs) {
      output.values = with_value(output.values, 0, std::numeric_limits<float>::infinity());
    }
  });
  // A holder that failed is seldom tried: time passes until it was caught three times.
  for (int i = 0; i < 20 && !mesh.world.at(0).node().standings().is_quarantined(
                                mesh.world.now(), mesh.world.at(1).provider());
       ++i) {
    expect_truth(mesh);
    mesh.world.run_for(std::chrono::seconds(30));
  }
  const auto list = mesh.world.call(0, rpc::ListProvidersCall{});
  ASSERT_TRUE(list) << list.error().message();
  std::size_t quarantined = 0;
  const auto uptime =
      std::chrono::duration_cast<std::chrono::milliseconds>(mesh.world.now().since_start);
  const std::uint64_t now_ms = kWallOriginMs + static_cast<std::uint64_t>(uptime.count());
  for (const auto& row : std::get<rpc::ListProvidersAnswer>(*list).providers) {
    if (!row.quarantined_until_ms) continue;
    ++quarantined;
    EXPECT_EQ(row.address, mesh.world.at(1).provider());
    EXPECT_GT(*row.quarantined_until_ms, now_ms) << "Unix time";
    EXPECT_LE(*row.quarantined_until_ms, now_ms + 5 * 60'000);
    EXPECT_EQ(row.reputation, 0) << "of a start of zero nothing is left to lose";
  }
  EXPECT_EQ(quarantined, 1U);
  const auto asked_before = mesh.world.calls_sent(wire::Protocol::exec);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(mesh.forward(mesh_forward(500 + i, 6)));
  const auto asked = mesh.world.calls_sent(wire::Protocol::exec) - asked_before;
  // In quarantine it is no longer asked first: at most one call a holder and forward.
  EXPECT_LE(asked, 10 * (mesh.world.size() - 1));
}

}  // namespace
}  // namespace tenzro::testing
