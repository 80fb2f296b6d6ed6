// Goal: routing of two really trained models equals what their reference classes did.
// Method: the public traces in tests/data/models: `moe_input` through the BF16 router of the
// sharded checkpoint, then route, then naive experts; ids exact, weights 1e-5, outputs 1e-4.
#include <algorithm>
#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "tenzro/routing/route.hpp"

#include "support/family_layer.hpp"
#include "support/naive_layer.hpp"

namespace tenzro::routing {
namespace {

using testing::FamilyLayer;
using testing::Tensors;
using testing::TensorTable;

std::string folder(const std::string& model) {
  return std::string(TENZRO_TEST_DATA) + "/models/" + model + "/";
}

Tensors checkpoint(const std::string& model) {
  std::vector<std::string> shards;
  for (const char* part : {"1", "2", "3"}) {
    shards.push_back(folder(model) + "model-0000" + part + "-of-00003.safetensors");
  }
  return std::make_shared<const TensorTable>(shards);
}

struct TraceLayer {
  std::string model;
  int prompt = 0;
  int layer = 0;
};

class TinyModel : public ::testing::TestWithParam<TraceLayer> {
 protected:
  static FamilyLayer read_layer(const TraceLayer& at) {
    const std::string prefix = "model.layers." + std::to_string(at.layer) + ".mlp.";
    const Tensors tensors = checkpoint(at.model);
    if (at.model == "tiny-qwen3-moe") return testing::qwen3_layer(tensors, prefix, 4, true);
    return testing::deepseek_v3_layer(tensors, prefix,
                                      {.n_group = 4, .topk_group = 2, .top_k = 4, .scale = 2.5});
  }
};

/// (id, weight) pairs of one token by id.
using Pairs = std::vector<std::pair<std::int64_t, float>>;

TEST_P(TinyModel, TracedBlocksAreReproduced) {
  const FamilyLayer layer = read_layer(GetParam());
  const TensorTable trace({folder(GetParam().model) + "trace_public.safetensors"});
  const std::string at = "prompt" + std::to_string(GetParam().prompt) + ".layers." +
                         std::to_string(GetParam().layer) + ".";
  const std::vector<float> input = trace.floats(at + "moe_input");
  const std::vector<std::int64_t> ids = trace.integers(at + "topk_ids");
  const std::vector<float> weights = trace.floats(at + "topk_weights");
  const std::vector<float> output = trace.floats(at + "moe_output");

  const Router router(layer.gate);
  const std::vector<float> logits = testing::naive_logits(layer.gate, input);
  const auto tokens = static_cast<std::uint32_t>(input.size() / router.d_model());
  const auto routed = route(router, {.logits = logits, .tokens = tokens, .top_k = 4});
  ASSERT_TRUE(routed) << routed.error().message();
  ASSERT_GE(tokens, 40U);
  for (std::uint32_t t = 0; t < tokens; ++t) {
    Pairs expected;
    Pairs got;
    for (std::size_t k = 0; k < 4; ++k) {
      expected.emplace_back(ids[std::size_t{t} * 4 + k], weights[std::size_t{t} * 4 + k]);
      got.emplace_back(routed->token(t)[k].expert, routed->token(t)[k].weight);
    }
    std::sort(expected.begin(), expected.end());
    std::sort(got.begin(), got.end());
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(got[k].first, expected[k].first) << "token " << t;
      EXPECT_NEAR(got[k].second, expected[k].second, 1e-5) << "token " << t;
    }
  }

  const std::vector<float> mine =
      testing::naive_output({.gate = layer.gate, .experts = layer.experts}, input, *routed);
  float largest = 1;
  for (const float y : output) largest = std::max(largest, std::fabs(y));
  for (std::size_t i = 0; i < output.size(); ++i) {
    ASSERT_NEAR(mine[i], output[i], 1e-4F * largest) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Traces, TinyModel,
    ::testing::Values(TraceLayer{"tiny-qwen3-moe", 0, 0}, TraceLayer{"tiny-qwen3-moe", 0, 1},
                      TraceLayer{"tiny-qwen3-moe", 1, 0}, TraceLayer{"tiny-qwen3-moe", 1, 1},
                      TraceLayer{"tiny-deepseek-v3", 0, 1}, TraceLayer{"tiny-deepseek-v3", 0, 2},
                      TraceLayer{"tiny-deepseek-v3", 1, 1}, TraceLayer{"tiny-deepseek-v3", 1, 2}),
    [](const auto& one) {
      std::string name = one.param.model + "_prompt" + std::to_string(one.param.prompt) + "_layer" +
                         std::to_string(one.param.layer);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace tenzro::routing
