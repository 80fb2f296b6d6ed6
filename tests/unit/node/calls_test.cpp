// What a client sees of one node: loads, forwards, refusals, in a world of one thread.
#include <gtest/gtest.h>

#include "tenzro/crypto/blake3.hpp"
#include "tenzro/wire/uri.hpp"

#include "support/node_world.hpp"
#include "support/small_layer.hpp"

namespace tenzro::testing {
namespace {

const LayerKey kLayer{"m", 3};

rpc::Rows rows_of(const std::vector<float>& values) {
  return {static_cast<std::uint32_t>(values.size() / kSmallWidth), kSmallWidth,
          BufferRef::copy_of(std::as_bytes(std::span(values)))};
}

void load_layer(NodeWorld& world, std::uint32_t experts) {
  expect_answer<rpc::GateRow>(world.call(
      rpc::GateLoadCall{.key = kLayer, .has_inline = true, .blob = small_gate(experts, 2)}));
  for (ExpertIndex e = 0; e < experts; ++e) {
    expect_answer<rpc::ExpertRow>(
        world.call(rpc::ExpertLoadCall{.key = {kLayer.model, kLayer.layer, e},
                                       .has_inline = true,
                                       .blob = small_expert(static_cast<float>(e + 1))}));
  }
}

rpc::ForwardCall forward_of(const std::vector<float>& values) {
  rpc::ForwardCall call{.route = {.key = kLayer, .d_model = kSmallWidth}};
  call.route.hidden = rows_of(values);
  return call;
}

rpc::ExecuteCall execute_of(ExpertIndex expert, const std::vector<float>& values) {
  rpc::ExecuteCall call{.key = {kLayer.model, kLayer.layer, expert}, .d_model = kSmallWidth};
  call.hidden = rows_of(values);
  call.carrier = call.hidden.data;
  for (std::uint32_t i = 0; i < call.hidden.count; ++i) call.token_indices.push_back(i);
  return call;
}

Error error_of(const Result<rpc::Answer>& answer) {
  EXPECT_FALSE(answer) << "the call should have been refused";
  return answer ? Error{} : answer.error();
}

TEST(NodeCalls, ForwardCombinesSelectedExpertsByTheirWeights) {
  NodeWorld world;
  load_layer(world, 3);
  // Logits 2, 2, 0: experts 0 and 1 with weight 1/2 each; outputs 1·x² and 2·x².
  const auto answer = expect_answer<rpc::ForwardAnswer>(world.call(forward_of({2, 2, 0, 1})));
  const std::span<const float> y = answer.outputs.as<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{6.0F, 6.0F, 0.0F, 1.5F}));
  EXPECT_EQ(answer.batches, 2U);
  EXPECT_TRUE(answer.missing.empty());
}

TEST(NodeCalls, ForwardWithoutAnExpertFailsClosedAndPartialScalesTheRest) {
  NodeWorld world;
  load_layer(world, 3);
  expect_answer<rpc::UnloadAnswer>(world.call(rpc::ExpertUnloadCall{{"m", 3, 1}}));
  EXPECT_EQ(error_of(world.call(forward_of({2, 2, 0, 1}))).message(),
            "moe dispatch planner: expert l3/e1 has no reachable holder");
  rpc::ForwardCall partial = forward_of({2, 2, 0, 1});
  partial.allow_partial = true;
  const auto answer = expect_answer<rpc::ForwardAnswer>(world.call(partial));
  const std::span<const float> y = answer.outputs.as<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{4.0F, 4.0F, 0.0F, 1.0F}));
  EXPECT_EQ(answer.batches, 1U);
  EXPECT_EQ(answer.transports_local, 1U);
  ASSERT_EQ(answer.missing.size(), 1U);
  EXPECT_EQ(answer.missing[0].slot.expert, 1U);
  EXPECT_EQ(answer.missing[0].tokens, (std::vector<std::uint32_t>{0}));
}

TEST(NodeCalls, PartialForwardBelowTheKeptMassFailsAndSaysTheMass) {
  NodeWorld world;
  load_layer(world, 3);
  expect_answer<rpc::UnloadAnswer>(world.call(rpc::ExpertUnloadCall{{"m", 3, 0}}));
  rpc::ForwardCall partial = forward_of({4, 0, 0, 1});
  partial.allow_partial = true;
  const Error error = error_of(world.call(partial));
  EXPECT_EQ(error.code, ErrorCode::runtime);
  EXPECT_NE(error.message().find("token 0 keeps 0.01"), std::string::npos) << error.message();
}

TEST(NodeCalls, ZeroTokensRouteToNothingAndForwardToAnError) {
  NodeWorld world;
  load_layer(world, 2);
  rpc::RouteCall route{.key = kLayer, .d_model = kSmallWidth};
  route.hidden = rows_of({});
  EXPECT_EQ(expect_answer<rpc::RouteAnswer>(world.call(route)).routed.tokens, 0U);
  const Error error = error_of(world.call(forward_of({})));
  EXPECT_EQ(error.code, ErrorCode::infrastructure);
  EXPECT_EQ(error.message(), "moe dispatch planner: token routing list is empty");
  const Error empty = error_of(world.call(execute_of(0, {})));
  EXPECT_EQ(empty.code, ErrorCode::runtime);
  EXPECT_EQ(empty.message(), "moe execute: expert execution batch is empty");
}

TEST(NodeCalls, WhatIsNotLoadedOrDoesNotFitIsNamed) {
  NodeWorld world;
  EXPECT_EQ(error_of(world.call(forward_of({1, 1, 1, 1}))).message(),
            "moe route: gating network for m layer 3 is not loaded on this host");
  EXPECT_EQ(error_of(world.call(execute_of(5, {1, 1, 1, 1}))).message(),
            "moe execute: expert m l3/e5 is not loaded on this host");
  load_layer(world, 2);
  rpc::ForwardCall wide = forward_of({1, 1, 1, 1});
  wide.route.d_model = 2;
  wide.route.hidden = {2, 2, wide.route.hidden.data};
  const Error error = error_of(world.call(wide));
  EXPECT_EQ(error.code, ErrorCode::invalid_params);
  EXPECT_EQ(error.message(), "d_model: 2 is not the gate's width, 4");
  rpc::ExecuteCall execute = execute_of(0, {1, 1, 1, 1});
  execute.d_model = 2;
  EXPECT_EQ(error_of(world.call(execute)).message(), "d_model: 2 is not the expert's width, 4");
}

TEST(NodeCalls, ForwardOverAnExpertOfAnotherWidthIsAnErrorThatNamesIt) {
  NodeWorld world;
  load_layer(world, 2);
  std::vector<float> eye(64, 0.0F);
  for (std::size_t i = 0; i < 8; ++i) eye[i * 9] = 1.0F;
  compute::ExpertView wide{.spec = {.activation = compute::Activation::relu2}};
  wide.up = {tensor::WeightType::f32, 8, 8, std::as_bytes(std::span<const float>(eye))};
  wide.down = wide.up;
  expect_answer<rpc::ExpertRow>(
      world.call(rpc::ExpertLoadCall{.key = {"m", 3, 1},
                                     .has_inline = true,
                                     .blob = BufferRef::copy_of(wire::make_expert_blob(wide))}));
  rpc::ForwardCall forward = forward_of({2, 2, 0, 1});
  forward.allow_partial = true;
  const Error error = error_of(world.call(forward));
  EXPECT_EQ(error.code, ErrorCode::runtime);
  EXPECT_EQ(error.message(),
            "moe forward: expert l3/e1 has width 8, its layer's gate gives it rows of 4");
}

TEST(NodeCalls, NonFiniteOutputIsAnErrorThatNamesTheToken) {
  NodeWorld world;
  load_layer(world, 2);
  rpc::ExecuteCall execute = execute_of(0, {1, 1, 1, 1, 1e30F, 1, 1, 1});  // squares beyond f32
  execute.token_indices = {7, 9};
  const Error error = error_of(world.call(execute));
  EXPECT_EQ(error.code, ErrorCode::runtime);
  EXPECT_EQ(error.message(), "moe execute: non-finite output for token 9");
}

TEST(NodeCalls, FailedReloadLeavesTheOldExpertServing) {
  NodeWorld world;
  load_layer(world, 2);
  const auto bad =
      world.call(rpc::ExpertLoadCall{.key = {"m", 3, 0},
                                     .has_inline = true,
                                     .blob = BufferRef::copy_of("not a safetensors file at all")});
  EXPECT_EQ(error_of(bad).code, ErrorCode::runtime);
  EXPECT_TRUE(error_of(bad).message().starts_with("expert load: safetensors parse error: "))
      << error_of(bad).message();
  const auto answer = expect_answer<rpc::ExecuteAnswer>(world.call(execute_of(0, {3, 0, 0, 0})));
  EXPECT_EQ(answer.outputs.as<float>()[0], 9.0F);
  EXPECT_TRUE(answer.receipt_json.has_value());
}

TEST(NodeCalls, LoadByUriNeedsTheBytesAndDeclaresTheUri) {
  NodeWorld world;
  const BufferRef blob = small_expert(2);
  const std::string uri = wire::format_blob_uri(crypto::blake3(blob.bytes()));
  const rpc::ExpertLoadCall load{.key = {"m", 3, 0}, .uri = uri};
  const Error error = error_of(world.call(load));
  EXPECT_EQ(error.code, ErrorCode::infrastructure);
  EXPECT_TRUE(error.message().starts_with("blob fetch: ")) << error.message();
  const auto published =
      expect_answer<rpc::PublishBlobAnswer>(world.call(rpc::PublishBlobCall{blob}));
  EXPECT_EQ(published.size_bytes, blob.size());
  EXPECT_EQ(expect_answer<rpc::ExpertRow>(world.call(load)).source_uri, uri);
  const auto map = expect_answer<rpc::ShardMapAnswer>(world.call(rpc::ShardMapCall{"m"}));
  ASSERT_EQ(map.holders.size(), 1U);
  EXPECT_EQ(map.holders[0].holders[0].blob_uri, uri);
  EXPECT_EQ(map.under_replicated_experts.size(), 1U);
  EXPECT_EQ(map.expert_holders_role_count, 1U);
}

TEST(NodeCalls, UriBesideInlineBytesIsDeclaredOnlyIfTheyHashToIt) {
  NodeWorld world;
  const BufferRef blob = small_expert(2);
  const std::string right = wire::format_blob_uri(crypto::blake3(blob.bytes()));
  const std::string wrong = wire::format_blob_uri(BlobHash{});
  rpc::ExpertLoadCall load{.key = {"m", 3, 0}, .has_inline = true, .blob = blob, .uri = wrong};
  EXPECT_EQ(expect_answer<rpc::ExpertRow>(world.call(load)).source_uri, std::nullopt);
  load.uri = right;
  EXPECT_EQ(expect_answer<rpc::ExpertRow>(world.call(load)).source_uri, right);
  load.uri = "tenzro://elsewhere/x";
  EXPECT_EQ(error_of(world.call(load)).code, ErrorCode::invalid_params);
}

TEST(NodeCalls, PlanDispatchListsATokenOnceABatch) {
  NodeWorld world;
  load_layer(world, 2);
  rpc::PlanDispatchCall call{.model = "m"};
  call.routings = {{4, {{3, 0}, {3, 1}, {3, 0}}}, {5, {{3, 0}}}, {4, {{3, 0}}}};
  const auto plan = expect_answer<rpc::PlanDispatchAnswer>(world.call(call));
  ASSERT_EQ(plan.batches.size(), 2U);
  EXPECT_EQ(plan.batches[0].token_indices, (std::vector<std::uint32_t>{4, 5}));
  EXPECT_EQ(plan.token_assignments.size(), 3U);
  call.routings = {{0, {{3, 9}}}};
  EXPECT_EQ(error_of(world.call(call)).message(),
            "moe dispatch planner: expert l3/e9 has no reachable holder");
}

TEST(NodeCalls, DeadlineEndsAForwardWithOneReplyAndLateResultsAreIgnored) {
  NodeWorld world;
  load_layer(world, 2);
  const RequestId request = world.begin(forward_of({1, 1, 1, 1}));
  world.advance(std::chrono::seconds(31));
  const auto answer = world.answer(request);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(error_of(*answer).message(), "moe forward: deadline exceeded");
  world.settle();
  EXPECT_FALSE(world.answer(request).has_value());
  EXPECT_EQ(world.node().requests_in_progress(), 0U);
}

TEST(NodeCalls, CancelledCallIsNeverAnsweredAndFreesItsExperts) {
  NodeWorld world;
  load_layer(world, 2);
  const RequestId request = world.begin(forward_of({1, 1, 1, 1}));
  world.work(1);
  world.cancel(request);
  world.settle();
  EXPECT_FALSE(world.answer(request).has_value());
  EXPECT_EQ(world.node().requests_in_progress(), 0U);
  expect_answer<rpc::ForwardAnswer>(world.call(forward_of({1, 1, 1, 1})));
}

TEST(NodeCalls, BeyondItsLimitTheNodeIsBusyAndStatusStillAnswers) {
  NodeWorld::Setup setup;
  setup.options.requests_max = 2;
  NodeWorld world(setup);
  load_layer(world, 2);
  world.begin(forward_of({1, 1, 1, 1}));
  world.begin(forward_of({1, 1, 1, 1}));
  const RequestId third = world.begin(forward_of({1, 1, 1, 1}));
  const auto refused = world.answer(third);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(error_of(*refused).code, ErrorCode::busy);
  expect_answer<rpc::ExpertStatusAnswer>(world.call(rpc::ExpertStatusCall{}));
}

TEST(NodeCalls, ForwardWhoseOutputsWouldNotFitIsRefusedWithTheNumbers) {
  NodeWorld::Setup setup;
  setup.options.forward_bytes_max = 100;
  NodeWorld world(setup);
  load_layer(world, 2);
  const Error error = error_of(world.call(forward_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})));
  EXPECT_EQ(error.code, ErrorCode::invalid_params);
  EXPECT_EQ(error.message(),
            "hidden_states: 3 tokens with 3 slots need 144 bytes of expert outputs; a forward may "
            "take 100");
}

TEST(NodeCalls, TokensWithMoreSlotsThanAReplyMayHaveAreRefusedWithTheNumbers) {
  NodeWorld world;
  load_layer(world, 2);
  constexpr std::size_t kTokens = (1UL << 20U) + 1;
  rpc::RouteCall route{.key = kLayer, .d_model = kSmallWidth, .top_k = 1000};
  route.hidden = rows_of(std::vector<float>(kTokens * kSmallWidth, 1.0F));
  const Error error = error_of(world.call(route));
  EXPECT_EQ(error.code, ErrorCode::invalid_params);
  EXPECT_EQ(error.message(),
            "hidden_states: 1048577 tokens have 2097154 slots; one call may have 2097152");
  rpc::ForwardCall forward{.route = route};
  EXPECT_EQ(error_of(world.call(forward)).message(), error.message());
}

TEST(NodeCalls, DrainingNodeFinishesWhatItHasAndTakesNothingNew) {
  NodeWorld world;
  load_layer(world, 2);
  const RequestId before = world.begin(forward_of({1, 1, 1, 1}));
  expect_answer<rpc::NodeDrainAnswer>(world.call(rpc::NodeDrainCall{}));
  EXPECT_TRUE(world.answer(before).value().has_value());
  EXPECT_EQ(error_of(world.call(forward_of({1, 1, 1, 1}))).message(),
            "this node is draining and takes no new work");
}

TEST(NodeCalls, MeasuredRateIsTokensOfTheLastMinuteAndZeroAfterAnIdleOne) {
  NodeWorld world;
  load_layer(world, 2);
  expect_answer<rpc::ExecuteAnswer>(
      world.call(execute_of(0, std::vector<float>(120UL * kSmallWidth, 1.0F))));
  EXPECT_EQ(
      expect_answer<rpc::ExpertStatusAnswer>(world.call(rpc::ExpertStatusCall{})).measured_tps, 2U);
  world.advance(std::chrono::seconds(61));
  EXPECT_EQ(
      expect_answer<rpc::ExpertStatusAnswer>(world.call(rpc::ExpertStatusCall{})).measured_tps, 0U);
}

TEST(NodeCalls, CatalogueShapeTellsDenseUnknownAndMixtureApart) {
  NodeWorld world;
  const auto shape =
      expect_answer<rpc::CatalogShapeAnswer>(world.call(rpc::CatalogShapeCall{"deepseek-v3-0324"}));
  ASSERT_TRUE(shape.moe.has_value());
  EXPECT_EQ(shape.moe->num_experts, 256U);
  const Error error = error_of(world.call(rpc::CatalogShapeCall{"nobody-1b"}));
  EXPECT_EQ(error.code, ErrorCode::invalid_params);
  EXPECT_EQ(error.message(), "unknown model_id: nobody-1b");
}

}  // namespace
}  // namespace tenzro::testing
