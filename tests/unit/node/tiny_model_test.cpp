// Goal: a genuine checkpoint, sliced, quantised, published, loaded by URI and forwarded, gives what
// its reference gave. Method: prepare each MoE layer of both tiny models under every preset, load
// the blobs, forward the traced inputs.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "support/node_world.hpp"
#include "support/relative_l2.hpp"
#include "support/tensor_table.hpp"

namespace tenzro::testing {
namespace {

struct TinyModel {
  const char* name;
  LayerIndex first_layer;
  LayerIndex last_layer;
  std::uint32_t expert_ids;
};

constexpr TinyModel kModels[] = {{"tiny-qwen3-moe", 0, 1, 16}, {"tiny-deepseek-v3", 1, 2, 17}};

struct Preset {
  const char* name;
  std::optional<tensor::WeightType> gate_up;
  std::optional<tensor::WeightType> down;
  /// Bound of the relative L2 error of a layer's output.
  double error_max;
};

// Dense: f32 sums in another order than the reference's. Quantised: the quantiser's own error over
// a layer, and activations rounded to Q8_0 twice; each bound is about 1.5 times the worst measured
// over both models.
constexpr Preset kPresets[] = {
    {"dense", std::nullopt, std::nullopt, 1e-5},
    {"q8_0", tensor::WeightType::q8_0, tensor::WeightType::q8_0, 1.5e-2},
    {"q4_k_m", tensor::WeightType::q4_k, tensor::WeightType::q6_k, 5e-2},
    {"q4_k", tensor::WeightType::q4_k, tensor::WeightType::q4_k, 8.5e-2},
    {"q6_k", tensor::WeightType::q6_k, tensor::WeightType::q6_k, 2.5e-2},
};

std::string model_folder(const TinyModel& model) {
  return std::string(TENZRO_TEST_DATA) + "/models/" + model.name;
}

class TinyModelTest : public ::testing::TestWithParam<std::tuple<TinyModel, Preset>> {
 protected:
  void prepare_and_load(NodeWorld& world, const TinyModel& model, const Preset& preset,
                        LayerIndex layer) {
    rpc::PrepareExpertsCall call{
        .model = model.name, .layer = layer, .source = model_folder(model)};
    if (preset.gate_up) {
      call.quant = rpc::QuantPlan{preset.gate_up, preset.gate_up, preset.down, "\"preset\""};
    }
    const auto started = expect_answer<rpc::PrepareStartedAnswer>(world.call(call));
    EXPECT_EQ(started.total_experts, model.expert_ids);
    const auto status =
        expect_answer<rpc::PrepareStatusAnswer>(world.call(rpc::PrepareStatusCall{started.job_id}));
    ASSERT_EQ(status.state, rpc::PrepareState::completed) << status.error.value_or("");
    ASSERT_EQ(status.experts.size(), model.expert_ids);
    ASSERT_TRUE(status.gate.has_value());
    const auto gate = expect_answer<rpc::GateRow>(
        world.call(rpc::GateLoadCall{.key = {model.name, layer}, .uri = status.gate->uri}));
    EXPECT_EQ(gate.num_experts, 16U);
    for (const rpc::PreparedBlob& blob : status.experts) {
      const auto row = expect_answer<rpc::ExpertRow>(world.call(
          rpc::ExpertLoadCall{.key = {model.name, layer, blob.expert}, .uri = blob.uri}));
      EXPECT_EQ(row.source_uri, blob.uri);
      EXPECT_EQ(row.down_type, preset.down.value_or(tensor::WeightType::bf16));
    }
  }
};

void expect_routed_as(const rpc::RoutedTokens& routed, const std::vector<std::int64_t>& ids,
                      const std::vector<float>& weights, std::uint32_t top_k) {
  for (std::uint32_t t = 0; t < routed.tokens; ++t) {
    std::map<std::int64_t, float> want;
    std::map<std::int64_t, float> got;
    for (std::uint32_t k = 0; k < top_k; ++k) {
      want.emplace(ids[t * top_k + k], weights[t * top_k + k]);
      const rpc::WeightedSlot& slot = routed.slots[t * routed.slots_per_token + k];
      got.emplace(slot.expert, slot.weight);
    }
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [id, weight] : want) {
      ASSERT_TRUE(got.contains(id)) << "token " << t << " expert " << id;
      EXPECT_NEAR(got.at(id), weight, 1e-5) << "token " << t << " expert " << id;
    }
  }
}

TEST_P(TinyModelTest, PreparedLayersGiveTheTracedOutputs) {
  const auto& [model, preset] = GetParam();
  const TensorTable trace({model_folder(model) + "/trace_public.safetensors"});
  NodeWorld world;
  for (LayerIndex layer = model.first_layer; layer <= model.last_layer; ++layer) {
    ASSERT_NO_FATAL_FAILURE(prepare_and_load(world, model, preset, layer));
    for (const char* prompt : {"prompt0", "prompt1"}) {
      const std::string prefix = std::string(prompt) + ".layers." + std::to_string(layer) + ".";
      const std::vector<float> input = trace.floats(prefix + "moe_input");
      const auto tokens = static_cast<std::uint32_t>(trace.info(prefix + "moe_input").shape[0]);
      rpc::ForwardCall call{.route = {.key = {model.name, layer}, .d_model = 256}};
      call.route.hidden = {tokens, 256, BufferRef::copy_of(std::as_bytes(std::span(input)))};
      const auto answer = expect_answer<rpc::ForwardAnswer>(world.call(call));
      EXPECT_EQ(answer.top_k, 4U);
      EXPECT_EQ(answer.carrier, preset.gate_up ? "q8" : "dense");
      EXPECT_EQ(answer.transports_local, answer.batches);
      expect_routed_as(answer.routed, trace.integers(prefix + "topk_ids"),
                       trace.floats(prefix + "topk_weights"), 4);
      const double error =
          relative_l2(answer.outputs.as<float>(), trace.floats(prefix + "moe_output"));
      EXPECT_LE(error, preset.error_max) << prefix;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TinyModelTest,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::ValuesIn(kPresets)),
                         [](const auto& param) {
                           std::string name = std::get<0>(param.param).name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_" + std::get<1>(param.param).name;
                         });

}  // namespace
}  // namespace tenzro::testing
