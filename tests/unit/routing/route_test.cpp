#include "tenzro/routing/route.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/gate_builder.hpp"

namespace tenzro::routing {
namespace {

using ::testing::ElementsAre;
using testing::legacy_sigmoid_gate;
using testing::legacy_softmax_gate;
using testing::plain_gate;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Result<Routed> route_one(const wire::GateBlob& gate, const std::vector<float>& logits,
                         std::uint32_t top_k) {
  return route(Router(gate), {.logits = logits, .tokens = 1, .top_k = top_k});
}

std::vector<ExpertIndex> experts_of(const Routed& routed, std::uint32_t token = 0) {
  std::vector<ExpertIndex> out;
  for (const Slot& slot : routed.token(token)) out.push_back(slot.expert);
  return out;
}

float sigma(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

wire::GateBlob hash_gate() {
  wire::GateBlob gate = plain_gate(4);
  gate.spec.scoring = wire::Scoring::sqrtsoftplus;
  gate.spec.epsilon = 1e-20;
  gate.tid2eid = {3, 1, /**/ 0, 2, /**/ 1, 2};
  gate.tid2eid_top_k = 2;
  return gate;
}

// ---- refusals

TEST(Route, TopKZeroIsRefusedWithTheSentenceClientsMatch) {
  const auto routed = route_one(plain_gate(3), {1, 2, 3}, 0);
  ASSERT_FALSE(routed);
  EXPECT_EQ(routed.error().code, ErrorCode::invalid_params);
  EXPECT_EQ(routed.error().message(), "top_k must be >= 1");
}

TEST(Route, NonFiniteLogitsFailTheCallNamingTheToken) {
  const Router router(plain_gate(3));
  for (const float bad : {kNan, kInf, -kInf}) {
    const std::vector<float> logits{1, 2, 3, 4, bad, 6};
    const auto routed = route(router, {.logits = logits, .tokens = 2, .top_k = 1});
    ASSERT_FALSE(routed);
    EXPECT_EQ(routed.error().code, ErrorCode::runtime);
    EXPECT_EQ(routed.error().message(), "moe route: token 1 has non-finite logits");
  }
}

TEST(Route, ANonFiniteLogitOfAnUnselectedExpertStillFails) {
  EXPECT_FALSE(route_one(plain_gate(3), {9, 1, -kInf}, 1));
}

TEST(Route, ALogitThatItsBiasMakesInfiniteFails) {
  wire::GateBlob gate = plain_gate(2);
  gate.bias = {std::numeric_limits<float>::max(), 0};
  gate.spec.bias_on = wire::BiasOn::logits;
  const auto routed = route_one(gate, {std::numeric_limits<float>::max(), 0}, 1);
  ASSERT_FALSE(routed);
  EXPECT_EQ(routed.error().message(), "moe route: token 0 has non-finite logits");
}

TEST(Route, ANonFiniteSharedGateLogitFails) {
  wire::GateBlob gate = plain_gate(2);
  gate.spec.shared_count = 1;
  gate.spec.shared_gate = wire::SharedGate::sigmoid;
  const std::vector<float> logits{1, 2};
  const std::vector<float> shared{kNan};
  const auto routed = route(
      Router(gate), {.logits = logits, .tokens = 1, .top_k = 1, .shared_gate_logits = shared});
  ASSERT_FALSE(routed);
  EXPECT_EQ(routed.error().message(), "moe route: token 0 has non-finite logits");
}

TEST(Route, SelectedScoresThatSumToZeroFailInsteadOfGivingNan) {
  // Softmax leaves nothing for the expert that the bias insists on, and epsilon is 0.
  wire::GateBlob gate = plain_gate(2);
  gate.bias = {0, 5};
  const auto routed = route_one(gate, {1000, -1000}, 1);
  ASSERT_FALSE(routed);
  EXPECT_EQ(routed.error().code, ErrorCode::runtime);
  EXPECT_EQ(routed.error().message(), "moe route: token 0 has non-finite weights");
}

TEST(Route, AScaleThatOverflowsFails) {
  wire::GateBlob gate = plain_gate(2);
  gate.spec.scale = 1e300;
  EXPECT_FALSE(route_one(gate, {1, 2}, 1));
}

TEST(Route, HashLayerRefusesAnotherTopK) {
  const std::vector<float> logits{1, 2, 3, 4};
  const std::vector<std::int64_t> ids{0};
  const Router router(hash_gate());
  for (const std::uint32_t top_k : {1U, 3U, 100U}) {
    const auto routed =
        route(router, {.logits = logits, .tokens = 1, .top_k = top_k, .token_ids = ids});
    ASSERT_FALSE(routed);
    EXPECT_EQ(routed.error().code, ErrorCode::invalid_params);
    EXPECT_EQ(routed.error().where, "top_k");
  }
}

TEST(Route, HashLayerRefusesMissingTooFewAndForeignTokenIds) {
  const std::vector<float> logits(8, 0.0F);
  const Router router(hash_gate());
  const std::vector<std::vector<std::int64_t>> bad = {
      {}, {0}, {0, 1, 2}, {0, 3}, {0, -1}, {0, std::numeric_limits<std::int64_t>::max()}};
  for (const auto& ids : bad) {
    const auto routed =
        route(router, {.logits = logits, .tokens = 2, .top_k = 2, .token_ids = ids});
    ASSERT_FALSE(routed) << ids.size();
    EXPECT_EQ(routed.error().code, ErrorCode::invalid_params);
    EXPECT_EQ(routed.error().where, "token_ids");
  }
}

TEST(RouteDeathTest, LogitsOfAnotherSizeAreABug) {
  const std::vector<float> logits{1, 2};
  EXPECT_DEATH(
      static_cast<void>(route(Router(plain_gate(3)), {.logits = logits, .tokens = 1, .top_k = 1})),
      "input.logits.size");
}

// ---- the legacy rule

TEST(Route, LegacySoftmaxWeighsTheSelectedAgainstEachOther) {
  const auto routed = route_one(legacy_softmax_gate(3), {2, 1, -1}, 2);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(0, 1));
  const float e = std::exp(1.0F);
  EXPECT_NEAR(routed->slots[0].weight, e / (e + 1), 1e-6);
  EXPECT_NEAR(routed->slots[0].weight + routed->slots[1].weight, 1.0, 1e-6);
}

TEST(Route, LegacyBiasSteersTheSelectionAndNeverTheWeight) {
  const auto routed = route_one(legacy_sigmoid_gate({0, 0, 1}, 2.5), {2, 1, 0}, 2);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(0, 2));
  const float sum = sigma(2) + sigma(0);
  EXPECT_NEAR(routed->slots[0].weight, sigma(2) / sum * 2.5F, 1e-6);
  EXPECT_NEAR(routed->slots[1].weight, sigma(0) / sum * 2.5F, 1e-6);
}

TEST(Route, LegacyFloorsTheSumWhereADeclaredSpecAddsToIt) {
  const std::vector<float> logits{-30, -30};
  wire::GateBlob gate = legacy_sigmoid_gate({0, 0}, 1.0);
  const auto floored = route_one(gate, logits, 2);
  gate.spec.epsilon = 1e-20;
  gate.spec.epsilon_is_floor = false;
  const auto added = route_one(gate, logits, 2);
  ASSERT_TRUE(floored);
  ASSERT_TRUE(added);
  const float score = sigma(-30);
  EXPECT_FLOAT_EQ(floored->slots[0].weight, score / 1.1920928955078125e-7F);
  EXPECT_FLOAT_EQ(added->slots[0].weight, 0.5F);
}

// ---- selection

TEST(Route, EqualScoresGoToTheLowerIdInSelectionAndInOrder) {
  const auto routed = route_one(plain_gate(6), {1, 5, 5, 5, 5, 0}, 3);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(1, 2, 3));
}

TEST(Route, LogitsWhoseF32ScoresAreEqualTie) {
  // Both sigmoids round to 1, as they do in the reference classes; the logits differ.
  wire::GateBlob gate = plain_gate(3);
  gate.spec.scoring = wire::Scoring::sigmoid;
  const auto routed = route_one(gate, {0, 20, 25}, 1);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(1));
}

TEST(Route, TopKAboveTheNumberOfExpertsIsClamped) {
  const auto routed = route_one(plain_gate(3), {1, 3, 2}, 4'000'000'000U);
  ASSERT_TRUE(routed);
  EXPECT_EQ(routed->top_k, 3U);
  EXPECT_EQ(routed->slots_per_token, 3U);
  EXPECT_THAT(experts_of(*routed), ElementsAre(1, 2, 0));
}

TEST(Route, MaskedGroupsLoseToNegativeChoices) {
  wire::GateBlob gate = plain_gate(4);
  gate.spec.scoring = wire::Scoring::sigmoid;
  gate.spec.n_group = 2;
  gate.spec.topk_group = 1;
  gate.bias = {-9, -9, -5, -5};
  const auto routed = route_one(gate, {8, 8, -8, -8}, 2);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(2, 3));
}

TEST(Route, AGroupScoresTheSumOfItsTwoBest) {
  wire::GateBlob gate = plain_gate(6);
  gate.spec.order = wire::SelectionOrder::topk_then_softmax;
  gate.spec.n_group = 2;
  gate.spec.topk_group = 1;
  // Best single and best total are in the first group, the two best of a group in the second.
  const auto routed = route_one(gate, {10, 1, 9 - 8.5F, 6, 6, -90}, 1);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(3));
}

TEST(Route, AGroupOfOneScoresItsOne) {
  wire::GateBlob gate = plain_gate(3);
  gate.spec.n_group = 3;
  gate.spec.topk_group = 2;
  const auto routed = route_one(gate, {1, 2, 3}, 2);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(2, 1));
}

TEST(Route, EqualGroupsGoToTheLower) {
  wire::GateBlob gate = plain_gate(6);
  gate.spec.n_group = 3;
  gate.spec.topk_group = 1;
  const auto routed = route_one(gate, {1, 1, 1, 1, 1, 1}, 2);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(0, 1));
}

TEST(Route, MaskedExpertsFillUpWhereTooFewAreLeftAndStayDistinct) {
  wire::GateBlob gate = plain_gate(4);
  gate.spec.n_group = 4;
  gate.spec.topk_group = 1;
  const auto routed = route_one(gate, {1, 1.5F, 9, 1.2F}, 3);
  ASSERT_TRUE(routed);
  // 2 is the only unmasked one; then the lowest ids, ordered by their own weights.
  EXPECT_THAT(experts_of(*routed), ElementsAre(2, 1, 0));
}

// ---- weights

TEST(Route, WithoutNormalizeTheScoresAreTheWeights) {
  wire::GateBlob gate = plain_gate(2);
  gate.spec.scoring = wire::Scoring::sigmoid;
  gate.spec.normalize = false;
  gate.spec.scale = 2.0;
  const auto routed = route_one(gate, {0, -1}, 2);
  ASSERT_TRUE(routed);
  EXPECT_FLOAT_EQ(routed->slots[0].weight, 1.0F);
  EXPECT_FLOAT_EQ(routed->slots[1].weight, sigma(-1) * 2);
}

TEST(Route, NormalizeHasNoEffectAfterTopKThenSoftmax) {
  wire::GateBlob gate = plain_gate(3);
  gate.spec.order = wire::SelectionOrder::topk_then_softmax;
  gate.spec.epsilon = 0.5;
  const auto with = route_one(gate, {3, 1, 2}, 2);
  gate.spec.normalize = false;
  const auto without = route_one(gate, {3, 1, 2}, 2);
  ASSERT_TRUE(with);
  ASSERT_TRUE(without);
  EXPECT_EQ(with->slots, without->slots);
  EXPECT_FLOAT_EQ(with->slots[0].weight + with->slots[1].weight, 1.0F);
}

TEST(Route, AScaleOnTheOutputLeavesTheWeightsAlone) {
  wire::GateBlob gate = plain_gate(2);
  gate.spec.scale = 2.0;
  const auto scaled = route_one(gate, {1, 1}, 2);
  gate.spec.scale_on = wire::ScaleOn::output;
  const auto unscaled = route_one(gate, {1, 1}, 2);
  ASSERT_TRUE(scaled);
  ASSERT_TRUE(unscaled);
  EXPECT_FLOAT_EQ(scaled->slots[0].weight, 1.0F);
  EXPECT_FLOAT_EQ(unscaled->slots[0].weight, 0.5F);
}

TEST(Route, PerExpertScaleComesLastAndDecidesTheOrder) {
  wire::GateBlob gate = plain_gate(3);
  gate.per_expert_scale = {1, 10, -1};
  const auto routed = route_one(gate, {2, 2, 2}, 3);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(1, 0, 2));
  EXPECT_NEAR(routed->slots[0].weight, 10.0 / 3, 1e-6);
  EXPECT_NEAR(routed->slots[2].weight, -1.0 / 3, 1e-6);
}

TEST(Route, ALogitBiasCountsInSelectionAndWeight) {
  wire::GateBlob gate = plain_gate(2);
  gate.spec.bias_on = wire::BiasOn::logits;
  gate.bias = {0, 3};
  const auto routed = route_one(gate, {2, 0}, 2);
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed), ElementsAre(1, 0));
  EXPECT_NEAR(routed->slots[0].weight, sigma(1), 1e-6);
}

TEST(Route, HugeLogitsDoNotOverflowAnyScore) {
  for (const auto scoring :
       {wire::Scoring::softmax, wire::Scoring::sigmoid, wire::Scoring::sqrtsoftplus}) {
    wire::GateBlob gate = plain_gate(3);
    gate.spec.scoring = scoring;
    gate.spec.epsilon = 1e-20;
    const auto routed = route_one(gate, {-3e38F, 3e38F, 0}, 2);
    ASSERT_TRUE(routed);
    EXPECT_EQ(routed->slots[0].expert, 1U);
    EXPECT_TRUE(std::isfinite(routed->slots[0].weight));
  }
}

// ---- shared slot, hash layers, batches

TEST(Route, TheSharedSlotIsLastWithWeightOneWhateverTheScale) {
  for (wire::GateBlob gate : {plain_gate(3), legacy_softmax_gate(3)}) {
    gate.spec.shared_count = 2;
    gate.spec.scale = 0.25;
    const auto routed = route_one(gate, {1, 3, 2}, 2);
    ASSERT_TRUE(routed);
    EXPECT_EQ(routed->slots_per_token, 3U);
    EXPECT_EQ(routed->top_k, 2U);
    EXPECT_THAT(experts_of(*routed), ElementsAre(1, 2, 3));
    EXPECT_EQ(routed->slots[2].weight, 1.0F);
  }
}

TEST(Route, AGatedSharedSlotWeighsTheSigmoidOfItsLogit) {
  wire::GateBlob gate = plain_gate(2);
  gate.spec.shared_count = 1;
  gate.spec.shared_gate = wire::SharedGate::sigmoid;
  const std::vector<float> logits{1, 2, 3, 4};
  const std::vector<float> shared{0, -2};
  const auto routed = route(
      Router(gate), {.logits = logits, .tokens = 2, .top_k = 1, .shared_gate_logits = shared});
  ASSERT_TRUE(routed);
  EXPECT_FLOAT_EQ(routed->token(0)[1].weight, 0.5F);
  EXPECT_FLOAT_EQ(routed->token(1)[1].weight, sigma(-2));
}

TEST(Route, AHashLayerTakesExpertsFromTheTableAndWeightsFromTheGate) {
  const std::vector<float> logits{0, 1, 2, 3, /**/ 0, 1, 2, 3};
  const std::vector<std::int64_t> ids{1, 0};
  const auto routed =
      route(Router(hash_gate()), {.logits = logits, .tokens = 2, .top_k = 2, .token_ids = ids});
  ASSERT_TRUE(routed);
  EXPECT_THAT(experts_of(*routed, 0), ElementsAre(2, 0));
  EXPECT_THAT(experts_of(*routed, 1), ElementsAre(3, 1));
  const auto score = [](float x) { return std::sqrt(std::log1p(std::exp(x))); };
  EXPECT_NEAR(routed->token(0)[0].weight, score(2) / (score(2) + score(0)), 1e-6);
}

TEST(Route, TokenIdsOnAPlainLayerAreIgnored) {
  const std::vector<float> logits{1, 2};
  const std::vector<std::int64_t> ids{-7, 1'000'000'000'000};
  const auto routed =
      route(Router(plain_gate(2)), {.logits = logits, .tokens = 1, .top_k = 1, .token_ids = ids});
  EXPECT_TRUE(routed);
}

TEST(Route, ZeroTokensGiveZeroSlots) {
  for (const wire::GateBlob& gate : {plain_gate(4), hash_gate()}) {
    const auto routed = route(Router(gate), {.logits = {}, .tokens = 0, .top_k = 2});
    ASSERT_TRUE(routed);
    EXPECT_EQ(routed->tokens, 0U);
    EXPECT_TRUE(routed->slots.empty());
  }
}

TEST(Route, ATokensSlotsDoNotDependOnItsBatch) {
  const std::vector<float> both{1, 2, 3, 0, /**/ 5, 5, 1, 4};
  const Router router(plain_gate(4));
  const auto batch = route(router, {.logits = both, .tokens = 2, .top_k = 2});
  const auto alone = route(router, {.logits = std::span(both).subspan(4), .tokens = 1, .top_k = 2});
  ASSERT_TRUE(batch);
  ASSERT_TRUE(alone);
  EXPECT_TRUE(std::equal(alone->slots.begin(), alone->slots.end(), batch->token(1).begin()));
}

}  // namespace
}  // namespace tenzro::routing
