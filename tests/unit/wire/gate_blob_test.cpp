#include "tenzro/wire/gate_blob.hpp"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"

#include "blob_builder.hpp"

namespace tenzro::wire {
namespace {

using tensor::DType;
using tensor::WeightType;
using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// 4 experts, d_model 2.
BlobBuilder plain_gate() {
  BlobBuilder builder;
  builder.f32("router.weight", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  return builder;
}

BlobBuilder gate_with(std::string spec) {
  return plain_gate().metadata("tenzro.router", std::move(spec));
}

std::string refusal(const BlobBuilder& builder) {
  const Result<GateBlob> gate = parse_gate_blob(builder.build());
  if (gate) return "(accepted)";
  EXPECT_EQ(gate.error().code, ErrorCode::runtime);
  return gate.error().message();
}

RouterSpec spec_of(const BlobBuilder& builder) {
  const Result<GateBlob> gate = parse_gate_blob(builder.build());
  EXPECT_TRUE(gate.has_value()) << gate.error().message();
  return gate.value_or(GateBlob{}).spec;
}

TEST(GateBlob, SizesComeFromTheRouter) {
  const std::vector<std::byte> blob = plain_gate().build();
  const Result<GateBlob> gate = parse_gate_blob(blob);
  ASSERT_TRUE(gate.has_value()) << gate.error().message();
  EXPECT_EQ(gate->num_experts, 4U);
  EXPECT_EQ(gate->d_model, 2U);
  EXPECT_EQ(gate->expert_width(), 2U);
  EXPECT_FALSE(gate->is_hash_routed());
  EXPECT_EQ(load_f32_le(gate->router.row(3).data()), 7.0F);
}

TEST(LegacyGate, WithoutBiasIsASoftmaxOverTheSelectedWithoutScale) {
  const RouterSpec spec = spec_of(plain_gate().metadata("routed_scaling_factor", "2.5"));
  EXPECT_FALSE(spec.declared);
  EXPECT_EQ(spec.scoring, Scoring::softmax);
  EXPECT_EQ(spec.order, SelectionOrder::topk_then_softmax);
  EXPECT_EQ(spec.scale, 1);
  EXPECT_EQ(spec.shared_count, 0U);
}

TEST(LegacyGate, WithBiasIsSigmoidWithAFlooredSumAndAScale) {
  BlobBuilder builder = plain_gate();
  builder.f32("router.bias", {4}, {0, 0, 1, 0}).metadata("routed_scaling_factor", "2.5");
  const RouterSpec spec = spec_of(builder.metadata("shared_experts", "1"));
  EXPECT_EQ(spec.scoring, Scoring::sigmoid);
  EXPECT_EQ(spec.order, SelectionOrder::score_then_topk);
  EXPECT_TRUE(spec.normalize);
  EXPECT_TRUE(spec.epsilon_is_floor);
  EXPECT_EQ(spec.epsilon, static_cast<double>(std::numeric_limits<float>::epsilon()));
  EXPECT_EQ(spec.scale, 2.5);
  EXPECT_EQ(spec.bias_on, BiasOn::selection);
  EXPECT_EQ(spec.shared_count, 1U);
}

TEST(LegacyGate, UnreadableNumbersFallBackToTheirDefaults) {
  for (const char* text : {"", "two", "2.5x", " 2.5", "2,5"}) {
    BlobBuilder builder = plain_gate();
    builder.f32("router.bias", {4}, {0, 0, 1, 0}).metadata("routed_scaling_factor", text);
    EXPECT_EQ(spec_of(builder).scale, 1) << text;
  }
  for (const char* text : {"", "one", "1.5", "-1", "4294967296"}) {
    EXPECT_EQ(spec_of(plain_gate().metadata("shared_experts", text)).shared_count, 0U) << text;
  }
}

TEST(LegacyGate, ScaleThatIsNotFiniteIsRefused) {
  for (const char* text : {"inf", "nan", "-inf", "1e39"}) {
    BlobBuilder builder = plain_gate();
    builder.f32("router.bias", {4}, {0, 0, 1, 0}).metadata("routed_scaling_factor", text);
    EXPECT_EQ(refusal(builder), "routed_scaling_factor: not a finite number") << text;
  }
}

TEST(RouterSpec, EmptyObjectIsTheDefaultsAndSwitchesTheLegacyKeysOff) {
  BlobBuilder builder = gate_with("{}");
  builder.f32("router.bias", {4}, {0, 0, 1, 0});
  builder.metadata("routed_scaling_factor", "2.5").metadata("shared_experts", "1");
  const RouterSpec spec = spec_of(builder);
  EXPECT_TRUE(spec.declared);
  EXPECT_EQ(spec.scoring, Scoring::softmax);
  EXPECT_EQ(spec.order, SelectionOrder::score_then_topk);
  EXPECT_TRUE(spec.normalize);
  EXPECT_EQ(spec.epsilon, 0);
  EXPECT_FALSE(spec.epsilon_is_floor);
  EXPECT_EQ(spec.scale, 1);
  EXPECT_EQ(spec.scale_on, ScaleOn::weights);
  EXPECT_EQ(spec.n_group, 1U);
  EXPECT_EQ(spec.topk_group, 1U);
  EXPECT_EQ(spec.top_k, std::nullopt);
  EXPECT_EQ(spec.shared_count, 0U);
  EXPECT_EQ(spec.shared_gate, SharedGate::none);
  EXPECT_EQ(spec.bias_on, BiasOn::selection);
  EXPECT_EQ(spec.input_norm, InputNorm::none);
  EXPECT_EQ(spec.input_norm_eps, 1e-6);
  EXPECT_EQ(spec.latent_norm_eps, 1e-5);
}

TEST(RouterSpec, EpsilonDefaultsByScoring) {
  EXPECT_EQ(spec_of(gate_with(R"({"scoring":"sigmoid"})")).epsilon, 1e-20);
  EXPECT_EQ(spec_of(gate_with(R"({"scoring":"sqrtsoftplus"})")).epsilon, 1e-20);
  EXPECT_EQ(spec_of(gate_with(R"({"scoring":"sigmoid","epsilon":0})")).epsilon, 0);
}

TEST(RouterSpec, GroupsDefaultToAllOfThem) {
  EXPECT_EQ(spec_of(gate_with(R"({"n_group":4})")).topk_group, 4U);
  EXPECT_EQ(spec_of(gate_with(R"({"n_group":4,"topk_group":2})")).topk_group, 2U);
}

TEST(RouterSpec, EveryKeyIsRead) {
  BlobBuilder builder = gate_with(
      R"({"scoring":"sigmoid","order":"score_then_topk","normalize":false,"epsilon":1e-9,
          "scale":2.446,"scale_on":"output","n_group":2,"topk_group":1,"top_k":3,
          "shared":{"count":2,"gate":"sigmoid"},"bias_on":"logits","input_norm":"rms",
          "input_norm_eps":1e-7,"latent_norm_eps":0.001})");
  builder.f32("shared_gate.weight", {1, 2}, {1, 2});
  const RouterSpec spec = spec_of(builder);
  EXPECT_EQ(spec.scoring, Scoring::sigmoid);
  EXPECT_FALSE(spec.normalize);
  EXPECT_EQ(spec.epsilon, 1e-9);
  EXPECT_EQ(spec.scale, 2.446);
  EXPECT_EQ(spec.scale_on, ScaleOn::output);
  EXPECT_EQ(spec.n_group, 2U);
  EXPECT_EQ(spec.topk_group, 1U);
  EXPECT_EQ(spec.top_k, 3U);
  EXPECT_EQ(spec.shared_count, 2U);
  EXPECT_EQ(spec.shared_gate, SharedGate::sigmoid);
  EXPECT_EQ(spec.bias_on, BiasOn::logits);
  EXPECT_EQ(spec.input_norm, InputNorm::rms);
  EXPECT_EQ(spec.input_norm_eps, 1e-7);
  EXPECT_EQ(spec.latent_norm_eps, 0.001);
}

struct SpecCase {
  const char* text;
  const char* problem;
};

class RouterSpecRefuses : public ::testing::TestWithParam<SpecCase> {};

TEST_P(RouterSpecRefuses, ByName) {
  EXPECT_EQ(refusal(gate_with(GetParam().text)),
            std::string("tenzro.router: ") + GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, RouterSpecRefuses,
    ::testing::Values(SpecCase{R"({"topk":2})", "unknown key 'topk'"},
                      SpecCase{R"({"epsilon_is_floor":true})", "unknown key 'epsilon_is_floor'"},
                      SpecCase{R"({"declared":true})", "unknown key 'declared'"},
                      SpecCase{R"({"shared":{"counts":1}})", "unknown key 'shared.counts'"},
                      SpecCase{R"({"shared.count":1})", "unknown key 'shared.count'"},
                      SpecCase{R"({"scale":{"x":1}})", "'scale' must be a number"},
                      SpecCase{R"({"top_k":1,"top_k":2})", "duplicate key 'top_k'"},
                      SpecCase{R"({"shared":{"gate":"none","gate":"none"}})",
                               "duplicate key 'shared.gate'"},
                      SpecCase{R"("{}")", "not a JSON object"},
                      SpecCase{"", "not JSON at byte 1"}));
INSTANTIATE_TEST_SUITE_P(
    Types, RouterSpecRefuses,
    ::testing::Values(SpecCase{R"({"scoring":0})", "'scoring' must be a string"},
                      SpecCase{R"({"normalize":1})", "'normalize' must be true or false"},
                      SpecCase{R"({"normalize":"true"})", "'normalize' must be true or false"},
                      SpecCase{R"({"epsilon":"0"})", "'epsilon' must be a number"},
                      SpecCase{R"({"top_k":2.0})", "'top_k' must be an integer"},
                      SpecCase{R"({"top_k":"2"})", "'top_k' must be an integer"},
                      SpecCase{R"({"top_k":null})", "'top_k' must be an integer"},
                      SpecCase{R"({"top_k":[2]})", "'top_k' must be an integer"},
                      SpecCase{R"({"shared":1})", "'shared' must be an object"},
                      SpecCase{R"({"shared":[]})", "'shared' must be an object"},
                      SpecCase{R"({"shared":{"count":true}})",
                               "'shared.count' must be an integer"}));
INSTANTIATE_TEST_SUITE_P(
    Values, RouterSpecRefuses,
    ::testing::Values(
        SpecCase{R"({"scoring":"relu"})", "'scoring' has unknown or out of range value 'relu'"},
        SpecCase{R"({"order":"Score_then_topk"})",
                 "'order' has unknown or out of range value 'Score_then_topk'"},
        SpecCase{R"({"scale_on":"inputs"})",
                 "'scale_on' has unknown or out of range value 'inputs'"},
        SpecCase{R"({"bias_on":""})", "'bias_on' has unknown or out of range value ''"},
        SpecCase{R"({"input_norm":"layer"})",
                 "'input_norm' has unknown or out of range value 'layer'"},
        SpecCase{R"({"shared":{"gate":"softmax"}})",
                 "'shared.gate' has unknown or out of range value 'softmax'"},
        SpecCase{R"({"epsilon":-1e-9})", "'epsilon' has unknown or out of range value '-1e-09'"},
        SpecCase{R"({"scale":1e39})", "'scale' has unknown or out of range value '1e+39'"},
        SpecCase{R"({"input_norm_eps":-1})",
                 "'input_norm_eps' has unknown or out of range value '-1'"},
        SpecCase{R"({"top_k":0})", "'top_k' has unknown or out of range value '0'"},
        SpecCase{R"({"top_k":-1})", "'top_k' has unknown or out of range value '-1'"},
        SpecCase{R"({"top_k":4294967296})",
                 "'top_k' has unknown or out of range value '4294967296'"},
        SpecCase{R"({"n_group":0})", "'n_group' has unknown or out of range value '0'"},
        SpecCase{R"({"topk_group":0})", "'topk_group' has unknown or out of range value '0'"},
        SpecCase{R"({"shared":{"count":-1}})",
                 "'shared.count' has unknown or out of range value '-1'"}));
INSTANTIATE_TEST_SUITE_P(
    Together, RouterSpecRefuses,
    ::testing::Values(SpecCase{R"({"n_group":3})", "'n_group' 3 does not divide 4 experts"},
                      SpecCase{R"({"n_group":8})", "'n_group' 8 does not divide 4 experts"},
                      SpecCase{R"({"n_group":2,"topk_group":3})",
                               "'topk_group' 3 is above 'n_group' 2"},
                      SpecCase{R"({"order":"topk_then_softmax","scoring":"sigmoid"})",
                               "'order' topk_then_softmax goes with 'scoring' softmax only, not "
                               "sigmoid"}));

TEST(GateTensors, RouterIsRequiredDenseAndFinite) {
  EXPECT_EQ(refusal(plain_gate().drop("router.weight").f32("x", {1}, {0})),
            "tensor 'router.weight' missing from blob");
  EXPECT_EQ(refusal(plain_gate().f32("router.weight", {8}, std::vector<float>(8))),
            "tensor 'router.weight' has shape [8], expected [num_experts, d_model]");
  EXPECT_EQ(refusal(plain_gate().f32("router.weight", {0, 2}, {})),
            "tensor 'router.weight' has shape [0, 2], expected [num_experts, d_model]");
  BlobBuilder quantized;
  quantized.quantized("router.weight", WeightType::q8_0, 4, 32, pattern(128));
  EXPECT_EQ(refusal(quantized),
            "tensor 'router.weight' has unsupported dtype U8 (want F32, F16, or BF16)");
  EXPECT_EQ(refusal(plain_gate().f32("router.weight", {4, 2}, {0, 0, 0, 0, 0, kNan, 0, 0})),
            "tensor 'router.weight' row 2 holds a non-finite value");
}

TEST(GateTensors, VectorsMustHaveTheirLength) {
  EXPECT_EQ(refusal(plain_gate().f32("router.bias", {3}, {1, 2, 3})),
            "tensor 'router.bias' has shape [3], expected [4]");
  EXPECT_EQ(refusal(plain_gate().f32("router.bias", {0}, {})),
            "tensor 'router.bias' has shape [0], expected [4]");
  EXPECT_EQ(refusal(plain_gate().f32("router.per_expert_scale", {5}, std::vector<float>(5))),
            "tensor 'router.per_expert_scale' has shape [5], expected [4]");
  EXPECT_EQ(refusal(plain_gate().f32("router.input_scale", {4}, std::vector<float>(4))),
            "tensor 'router.input_scale' has shape [4], expected [2]");
  EXPECT_EQ(refusal(plain_gate().f32("router.bias", {4}, {0, 0, 0, kNan})),
            "tensor 'router.bias' row 3 holds a non-finite value");
}

TEST(GateTensors, SharedGateOfASigmoidMustBeThereAndFit) {
  const char* spec = R"({"shared":{"count":1,"gate":"sigmoid"}})";
  EXPECT_EQ(refusal(gate_with(spec)), "tensor 'shared_gate.weight' missing from blob");
  EXPECT_EQ(refusal(gate_with(spec).f32("shared_gate.weight", {2, 1}, {1, 2})),
            "tensor 'shared_gate.weight' has shape [2, 1], expected [1, 2]");
  EXPECT_EQ(refusal(gate_with(spec).f32("shared_gate.weight", {2}, {1, 2})),
            "tensor 'shared_gate.weight' has shape [2], expected [1, d_model]");
  EXPECT_EQ(refusal(gate_with(spec).f32("shared_gate.weight", {1, 2}, {1, 2})), "(accepted)");
}

BlobBuilder latent_gate() {
  BlobBuilder builder = gate_with("{}");
  builder.f32("latent_down.weight", {1, 2}, {1, 2});
  builder.f32("latent_norm.weight", {1}, {1});
  builder.f32("latent_up.weight", {2, 1}, {1, 2});
  return builder;
}

TEST(GateTensors, LatentWidthIsWhatExpertsSee) {
  const std::vector<std::byte> blob = latent_gate().build();
  const Result<GateBlob> gate = parse_gate_blob(blob);
  ASSERT_TRUE(gate.has_value()) << gate.error().message();
  EXPECT_EQ(gate->expert_width(), 1U);
}

TEST(GateTensors, LatentTensorsComeTogetherAndFit) {
  for (const std::string name : {"latent_down.weight", "latent_norm.weight", "latent_up.weight"}) {
    EXPECT_EQ(refusal(latent_gate().drop(name)), "tensor '" + name + "' missing from blob");
  }
  EXPECT_EQ(refusal(latent_gate().f32("latent_down.weight", {1, 3}, {1, 2, 3})),
            "tensor 'latent_down.weight' has shape [1, 3], expected [any, 2]");
  EXPECT_EQ(refusal(latent_gate().f32("latent_norm.weight", {2}, {1, 2})),
            "tensor 'latent_norm.weight' has shape [2], expected [1]");
  EXPECT_EQ(refusal(latent_gate().f32("latent_up.weight", {1, 2}, {1, 2})),
            "tensor 'latent_up.weight' has shape [1, 2], expected [2, 1]");
}

BlobBuilder hash_gate(std::vector<std::int64_t> table, std::uint64_t rows) {
  BlobBuilder builder = gate_with("{}");
  builder.values("router.tid2eid", DType::i64, {rows, table.size() / rows}, table);
  return builder;
}

TEST(HashTable, IsReadAsExpertIds) {
  const Result<GateBlob> gate = parse_gate_blob(hash_gate({0, 3, 2, 1, 3, 0}, 3).build());
  ASSERT_TRUE(gate.has_value()) << gate.error().message();
  EXPECT_TRUE(gate->is_hash_routed());
  EXPECT_EQ(gate->tid2eid_top_k, 2U);
  EXPECT_THAT(gate->tid2eid, ElementsAre(0, 3, 2, 1, 3, 0));
}

TEST(HashTable, IdOutOfRangeOrRepeatedInARowIsRefused) {
  EXPECT_EQ(refusal(hash_gate({0, 1, 2, 4}, 2)),
            "tensor 'router.tid2eid' row 1 names expert 4 of 4");
  EXPECT_EQ(refusal(hash_gate({0, 1, -1, 2}, 2)),
            "tensor 'router.tid2eid' row 1 names expert -1 of 4");
  EXPECT_EQ(refusal(hash_gate({0, 1LL << 32, 1, 2}, 2)),
            "tensor 'router.tid2eid' row 0 names expert 4294967296 of 4");
  EXPECT_EQ(refusal(hash_gate({0, 1, 2, 2}, 2)),
            "tensor 'router.tid2eid' row 1 names expert 2 twice");
  EXPECT_EQ(refusal(hash_gate({0, 1, 2, 0}, 2)), "(accepted)");
}

TEST(HashTable, ShapeAndTypeAreChecked) {
  EXPECT_EQ(refusal(hash_gate({0, 1, 2, 3, 0}, 1)),
            "tensor 'router.tid2eid' names 5 experts a row, there are 4");
  const auto with = [](BlobBuilder::Shape shape, std::size_t size) {
    return refusal(plain_gate().values("router.tid2eid", DType::i64, std::move(shape),
                                       std::vector<std::int64_t>(size)));
  };
  EXPECT_EQ(with({2}, 2), "tensor 'router.tid2eid' has shape [2], expected [vocab, top_k]");
  EXPECT_EQ(with({0, 2}, 0), "tensor 'router.tid2eid' has shape [0, 2], expected [vocab, top_k]");
  EXPECT_EQ(with({2, 0}, 0), "tensor 'router.tid2eid' has shape [2, 0], expected [vocab, top_k]");
  EXPECT_EQ(
      refusal(plain_gate().values<std::int32_t>("router.tid2eid", DType::i32, {1, 2}, {0, 1})),
      "tensor 'router.tid2eid' has unsupported dtype I32 (want I64)");
  BlobBuilder other_k = hash_gate({0, 1}, 1);
  other_k.metadata("tenzro.router", R"({"top_k":3})");
  EXPECT_EQ(refusal(other_k), "tensor 'router.tid2eid' has shape [1, 2], expected [vocab, 3]");
}

/// Everything that a gate can hold, over bytes that outlive it.
struct FullGate {
  std::vector<std::byte> router = BlobBuilder::encoded(WeightType::bf16, 64, pattern(512));
  std::vector<std::byte> shared = BlobBuilder::encoded(WeightType::f16, 64, pattern(64));
  std::vector<std::byte> down = BlobBuilder::encoded(WeightType::f32, 64, pattern(2048));
  std::vector<std::byte> up = BlobBuilder::encoded(WeightType::bf16, 32, pattern(2048));
  GateBlob gate;

  FullGate() {
    gate.num_experts = 8;
    gate.d_model = 64;
    gate.router = {.type = WeightType::bf16, .rows = 8, .cols = 64, .bytes = router};
    gate.bias = pattern(8);
    gate.per_expert_scale = pattern(8);
    gate.input_scale = pattern(64);
    gate.tid2eid = {0, 7, 3, 4, 1, 2};
    gate.tid2eid_top_k = 2;
    gate.shared_gate = {.type = WeightType::f16, .rows = 1, .cols = 64, .bytes = shared};
    gate.latent_down = {.type = WeightType::f32, .rows = 32, .cols = 64, .bytes = down};
    gate.latent_norm = pattern(32);
    gate.latent_up = {.type = WeightType::bf16, .rows = 64, .cols = 32, .bytes = up};
    gate.spec = {.scoring = Scoring::sigmoid,
                 .order = SelectionOrder::score_then_topk,
                 .normalize = false,
                 .epsilon = 1e-9,
                 .epsilon_is_floor = false,
                 .scale = 2.446,
                 .scale_on = ScaleOn::output,
                 .n_group = 4,
                 .topk_group = 2,
                 .top_k = 2,
                 .shared_count = 1,
                 .shared_gate = SharedGate::sigmoid,
                 .bias_on = BiasOn::logits,
                 .input_norm = InputNorm::rms,
                 .input_norm_eps = 1e-7,
                 .latent_norm_eps = 0.1,
                 .declared = true};
  }
};

std::map<std::string, std::string, std::less<>> metadata_of(const std::vector<std::byte>& blob) {
  return tensor::parse_safetensors(blob).value().metadata;
}

TEST(GateRoundTrip, EverythingAGateHoldsIsReadBack) {
  const FullGate full;
  const std::vector<std::byte> blob = make_gate_blob(full.gate);
  const Result<GateBlob> read = parse_gate_blob(blob);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->bias, full.gate.bias);
  EXPECT_EQ(read->per_expert_scale, full.gate.per_expert_scale);
  EXPECT_EQ(read->input_scale, full.gate.input_scale);
  EXPECT_EQ(read->tid2eid, full.gate.tid2eid);
  EXPECT_EQ(read->tid2eid_top_k, 2U);
  EXPECT_EQ(read->latent_norm, full.gate.latent_norm);
  EXPECT_EQ(read->router.type, WeightType::bf16);
  EXPECT_EQ(read->shared_gate->type, WeightType::f16);
  EXPECT_EQ(read->latent_up->cols, 32U);
  EXPECT_TRUE(std::equal(full.down.begin(), full.down.end(), read->latent_down->bytes.begin(),
                         read->latent_down->bytes.end()));
  // The specification too, field by field through its text; and equal gates make equal bytes.
  EXPECT_EQ(make_gate_blob(*read), blob);
  EXPECT_EQ(metadata_of(blob).at("tenzro.router"),
            R"({"scoring":"sigmoid","order":"score_then_topk","normalize":false,"epsilon":1e-09,)"
            R"("scale":2.446,"scale_on":"output","n_group":4,"topk_group":2,"top_k":2,)"
            R"("shared":{"count":1,"gate":"sigmoid"},"bias_on":"logits","input_norm":"rms",)"
            R"("input_norm_eps":1e-07,"latent_norm_eps":0.1})");
  EXPECT_FALSE(metadata_of(blob).contains("routed_scaling_factor"));
}

TEST(GateRoundTrip, LegacyGatesKeepTheirMeaningAndTheirLegacyKeys) {
  BlobBuilder sigmoid = plain_gate();
  sigmoid.f32("router.bias", {4}, {0, 0, 1, 0});
  sigmoid.metadata("routed_scaling_factor", "2.5").metadata("shared_experts", "1");
  const std::vector<std::byte> old = sigmoid.build();
  const std::vector<std::byte> made = make_gate_blob(parse_gate_blob(old).value());
  EXPECT_EQ(metadata_of(made).at("routed_scaling_factor"), "2.5");
  EXPECT_EQ(metadata_of(made).at("shared_experts"), "1");
  const RouterSpec spec = parse_gate_blob(made).value().spec;
  EXPECT_TRUE(spec.declared);
  EXPECT_EQ(spec.scoring, Scoring::sigmoid);
  EXPECT_EQ(spec.scale, 2.5);
  EXPECT_EQ(spec.shared_count, 1U);

  const std::vector<std::byte> softmax = plain_gate().build();
  const std::vector<std::byte> again = make_gate_blob(parse_gate_blob(softmax).value());
  EXPECT_EQ(metadata_of(again).at("routed_scaling_factor"), "1");
  EXPECT_EQ(metadata_of(again).at("shared_experts"), "0");
  EXPECT_EQ(parse_gate_blob(again).value().spec.order, SelectionOrder::topk_then_softmax);
}

TEST(GateRoundTrip, WhatTheLegacyRuleCannotSayGetsNoLegacyKeys) {
  const auto has_legacy_keys = [](const BlobBuilder& builder) {
    const std::vector<std::byte> blob = builder.build();
    return metadata_of(make_gate_blob(parse_gate_blob(blob).value()))
        .contains("routed_scaling_factor");
  };
  EXPECT_TRUE(has_legacy_keys(gate_with(R"({"normalize":true})")));
  EXPECT_FALSE(has_legacy_keys(gate_with(R"({"normalize":false})")));
  EXPECT_FALSE(has_legacy_keys(gate_with(R"({"scale":2})")));
  EXPECT_FALSE(has_legacy_keys(gate_with(R"({"n_group":2,"topk_group":1})")));
  EXPECT_FALSE(has_legacy_keys(gate_with(R"({"scoring":"sigmoid"})")));
  EXPECT_FALSE(has_legacy_keys(gate_with(R"({"input_norm":"rms"})")));
  BlobBuilder biased = gate_with("{}");
  EXPECT_FALSE(has_legacy_keys(biased.f32("router.bias", {4}, {0, 0, 1, 0})));
  EXPECT_TRUE(has_legacy_keys(biased.metadata("tenzro.router", R"({"scoring":"sigmoid"})")));
  EXPECT_FALSE(has_legacy_keys(
      biased.metadata("tenzro.router", R"({"scoring":"sigmoid","bias_on":"logits"})")));
  EXPECT_FALSE(has_legacy_keys(latent_gate()));
  EXPECT_FALSE(has_legacy_keys(hash_gate({0, 1}, 1)));
}

TEST(GateBlob, EveryCutIsRefusedAndEveryChangedByteDoesNoHarm) {
  const std::vector<std::byte> blob = make_gate_blob(FullGate().gate);
  for (std::size_t size = 0; size < blob.size(); size += 7) {
    EXPECT_FALSE(parse_gate_blob(std::span(blob).first(size)).has_value());
  }
  Prng prng(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> changed = blob;
    changed[prng.below(1500)] = static_cast<std::byte>(prng.next());
    const Result<GateBlob> gate = parse_gate_blob(changed);
    if (gate) {
      EXPECT_EQ(gate->num_experts, gate->router.rows);
    }
  }
}

}  // namespace
}  // namespace tenzro::wire
