// What a forward asks of whom, and that every (token, expert) reaches the combine once.
#include <gtest/gtest.h>

#include "scripted_mesh.hpp"

namespace tenzro::forward {
namespace {

using Pairs = std::map<std::pair<ExpertIndex, std::uint32_t>, float>;

const shards::WeightTypes kQuantized{tensor::WeightType::q4_k, tensor::WeightType::q4_k,
                                     tensor::WeightType::q6_k};

TEST(Flight, ExpertsOfOneHolderTravelInOneCallAndLocalOnesOverlap) {
  ScriptedMesh mesh;
  mesh.hold(1, {0, 1});
  mesh.hold(2, {2});
  mesh.hold(kSelf, {3});
  mesh.fly(mesh.request(), {{0, 2, 3}, {1, 2, 3}});
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{1, 2}));  // before anything local ran
  ASSERT_EQ(mesh.sent()[0].call->batches.size(), 2U);
  EXPECT_EQ(mesh.sent()[0].call->batches[1].rows, (std::vector<std::uint32_t>{1}));
  mesh.run_local();
  EXPECT_FALSE(mesh.outcome().has_value());
  mesh.answer(1);
  mesh.answer(0);
  ASSERT_TRUE(mesh.outcome().has_value());
  ASSERT_TRUE(mesh.outcome()->has_value());
  EXPECT_EQ(mesh.combined(), (Pairs{{{0, 0}, 0},
                                    {{1, 1}, 1001},
                                    {{2, 0}, 2000},
                                    {{2, 1}, 2001},
                                    {{3, 0}, 3000},
                                    {{3, 1}, 3001}}));
  const Tally& tally = (*mesh.outcome())->tally;
  EXPECT_EQ(tally.batches, 4U);
  EXPECT_EQ(tally.local, 1U);
  EXPECT_EQ(tally.iroh, 3U);
  EXPECT_EQ(tally.replans, 0U);
}

TEST(Flight, CallNamesRouterHolderProviderAndAFreshNonce) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.hold(2, {1});
  mesh.fly(mesh.request(), {{0, 1}});
  ASSERT_EQ(mesh.sent().size(), 2U);
  const work::RemoteCall& call = *mesh.sent()[0].call;
  EXPECT_EQ(call.router, address(kSelf));
  EXPECT_EQ(call.holder, address(1));
  EXPECT_EQ(call.provider, address(1));
  EXPECT_EQ(call.layer, (LayerKey{"m", 3}));
  EXPECT_NE(call.nonce, work::Nonce{});
  EXPECT_NE(call.nonce, mesh.sent()[1].call->nonce);
}

TEST(Flight, ForeignAndHttpHoldersGetOneExpertACall) {
  ScriptedMesh mesh;
  mesh.hold(1, {0, 1}, {.speaks_exec = false});
  mesh.hold(2, {2, 3}, {.is_http = true});
  mesh.fly(mesh.request(), {{0, 1, 2, 3}});
  ASSERT_EQ(mesh.sent().size(), 4U);
  for (const ScriptedMesh::Sent& sent : mesh.sent()) EXPECT_EQ(sent.call->batches.size(), 1U);
  EXPECT_EQ(mesh.sent()[0].call->transport, work::Transport::moe);
  EXPECT_EQ(mesh.sent()[3].call->transport, work::Transport::http);
  EXPECT_EQ(mesh.sent()[3].call->holder, EndpointId{});
  for (std::size_t i = 0; i < 4; ++i) mesh.answer(i);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ((*mesh.outcome())->tally.iroh, 2U);
  EXPECT_EQ((*mesh.outcome())->tally.http, 2U);
}

TEST(Flight, BatchThatFillsAMessageIsSplitAndPutTogetherAgain) {
  ScriptedMesh mesh({.width = 1 << 15, .expert_width = 1 << 15});
  mesh.hold(1, {0});
  const std::size_t most = rows_in_part_max(1 << 15);
  const std::size_t tokens = 8 * most + 1;
  mesh.fly(mesh.request(), std::vector<std::vector<ExpertIndex>>(tokens, {0}));
  ASSERT_GT(mesh.sent().size(), 1U);
  std::size_t rows = 0;
  for (const ScriptedMesh::Sent& sent : mesh.sent()) {
    ASSERT_EQ(sent.call->batches.size(), 1U) << "parts of one expert are one batch";
    const std::size_t carried = sent.call->batches[0].rows.size();
    EXPECT_LE(carried * (sizeof(float) << 15), wire::kExecMessageBytesMax);
    rows += carried;
  }
  EXPECT_EQ(rows, tokens);
  for (std::size_t i = mesh.sent().size(); i-- > 0;) mesh.answer(i);
  ASSERT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ(mesh.combined().size(), tokens);
  for (const auto& [pair, value] : mesh.combined()) EXPECT_EQ(value, float(pair.second));
}

TEST(Flight, LatentExpertsGetNarrowRowsAndTheSharedOneWideOnes) {
  ScriptedMesh mesh({.width = 8, .expert_width = 4, .has_shared = true});
  mesh.hold(1, {0, 8});
  mesh.fly(mesh.request(), {{0, 8}});
  ASSERT_EQ(mesh.sent().size(), 2U);
  for (const ScriptedMesh::Sent& sent : mesh.sent()) {
    const bool is_shared = sent.call->batches.at(0).expert == 8;
    EXPECT_EQ(sent.call->width, is_shared ? 8U : 4U);
    EXPECT_EQ(sent.call->input.size(), sent.call->width * sizeof(float));
  }
  mesh.answer(0);
  mesh.answer(1);
  EXPECT_TRUE(mesh.outcome() && mesh.outcome()->has_value());
  EXPECT_EQ(mesh.combined().size(), 2U);
}

TEST(Flight, CarrierIsQ8WhereEveryExpertHereAndElsewhereIsQuantised) {
  for (const bool is_remote_known : {true, false}) {
    ScriptedMesh mesh({.can_be_q8 = true});
    mesh.hold(kSelf, {0}, {.types = kQuantized});
    mesh.hold(1, {1}, {.types = is_remote_known ? std::optional(kQuantized) : std::nullopt});
    mesh.fly(mesh.request(), {{0, 1}});
    mesh.run_local();
    ASSERT_EQ(mesh.local_runs().size(), 1U);
    EXPECT_EQ(mesh.local_runs()[0].round_to_q8, is_remote_known);
    EXPECT_EQ(mesh.sent()[0].call->carrier == receipts::CarrierKind::q8_0, is_remote_known);
    mesh.answer(0);
    EXPECT_EQ((*mesh.outcome())->is_q8_carrier, is_remote_known);
  }
}

TEST(Flight, CarrierThatWasAskedForStandsUnlessTheRowsForbidIt) {
  for (const bool can_be_q8 : {true, false}) {
    ScriptedMesh mesh({.can_be_q8 = can_be_q8});
    mesh.hold(1, {0});
    Request request = mesh.request();
    request.carrier = Carrier::q8;
    mesh.fly(request, {{0}});
    EXPECT_EQ(mesh.sent()[0].call->carrier == receipts::CarrierKind::q8_0, can_be_q8);
  }
}

TEST(Flight, HolderThatDoesNotRunTheProfileIsNeverAsked) {
  ScriptedMesh mesh;
  mesh.hold(1, {0}, {.profiles = 0b01});  // fast only
  mesh.hold(2, {0}, {.profiles = 0b10});
  mesh.fly(mesh.request(), {{0}});
  ASSERT_EQ(mesh.holders(), (std::vector<std::uint8_t>{2}));
  EXPECT_EQ(mesh.sent()[0].call->profile, compute::Profile::exact);
  mesh.lose(0);
  ASSERT_TRUE(mesh.outcome().has_value());
  EXPECT_FALSE(mesh.outcome()->has_value());
  EXPECT_EQ(mesh.sent().size(), 1U);
}

TEST(Flight, ExpertThatNobodyHoldsFailsTheForwardOrIsMissing) {
  ScriptedMesh closed;
  closed.hold(1, {0});
  closed.fly(closed.request(), {{0, 5}});
  ASSERT_TRUE(closed.outcome().has_value());
  EXPECT_EQ(closed.outcome()->error().message(),
            "moe dispatch planner: expert l3/e5 has no reachable holder");
  EXPECT_TRUE(closed.sent().empty());

  ScriptedMesh partial;
  partial.hold(1, {0});
  Request request = partial.request();
  request.allow_partial = true;
  partial.fly(request, {{0, 5}});
  partial.answer(0);
  ASSERT_TRUE(partial.outcome() && partial.outcome()->has_value());
  ASSERT_EQ((*partial.outcome())->missing.size(), 1U);
  EXPECT_EQ((*partial.outcome())->missing[0].expert, 5U);
}

TEST(Flight, MissingSharedExpertFailsEvenAPartialForward) {
  ScriptedMesh mesh({.has_shared = true});
  mesh.hold(1, {0});
  Request request = mesh.request();
  request.allow_partial = true;
  mesh.fly(request, {{0, 8}});
  ASSERT_TRUE(mesh.outcome().has_value());
  EXPECT_FALSE(mesh.outcome()->has_value());
  EXPECT_EQ(mesh.finished(), 1U);
}

TEST(Flight, DeadlineEndsItOnceAndCancelsItsCalls) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  Request request = mesh.request();
  request.deadline = mesh.now() + std::chrono::milliseconds(20);
  mesh.fly(request, {{0}});
  mesh.advance(std::chrono::milliseconds(20));
  ASSERT_TRUE(mesh.outcome().has_value());
  EXPECT_EQ(mesh.outcome()->error().message(), "moe forward: deadline exceeded");
  EXPECT_TRUE(mesh.sent()[0].is_cancelled);
  mesh.answer_late(0);
  mesh.advance(std::chrono::seconds(60));
  EXPECT_EQ(mesh.finished(), 1U);
  EXPECT_EQ(mesh.flight().next_deadline(), std::nullopt);
}

TEST(Flight, CancelledFlightCancelsItsCallsAndSaysNothing) {
  ScriptedMesh mesh;
  mesh.hold(1, {0});
  mesh.fly(mesh.request(), {{0}});
  Outbox out;
  mesh.flight().cancel(mesh.now(), out);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(std::get<CancelCall>(out[0]).id, mesh.sent()[0].id);
  mesh.answer_late(0);
  EXPECT_EQ(mesh.finished(), 0U);
  EXPECT_EQ(mesh.standings().find(address(1))->in_flight, 0U);
}

}  // namespace
}  // namespace tenzro::forward
