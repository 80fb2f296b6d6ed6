// Goal: the embedded catalog holds the real numbers of every model it names.
// Method: the table of published configurations, written out a second time here.
#include <gtest/gtest.h>

#include "tenzro/catalog/catalog.hpp"

namespace tenzro::catalog {
namespace {

using compute::Activation;
using wire::Scoring;

struct Row {
  std::string id;
  std::string repo;
  Layout layout = Layout::dense;
  std::uint32_t hidden = 0;
  std::uint32_t expert_width = 0;
  std::uint32_t expert_ffn = 0;
  std::uint32_t layers = 0;
  std::uint32_t moe_layers = 0;
  std::uint32_t experts = 0;
  std::uint32_t top_k = 0;
  std::uint32_t shared = 0;
  std::uint32_t shared_ffn = 0;
  std::uint32_t mtp_layers = 0;
  Scoring scoring = Scoring::softmax;
  double scale = 1;
  Activation activation = Activation::silu;
  /// Megabytes of one expert in BF16, as published tables give it.
  double bf16_mb = 0;
};

std::vector<Row> rows() {
  const auto qwen35 = [](std::string id, std::string repo, std::uint32_t hidden, std::uint32_t ffn,
                         std::uint32_t layers, std::uint32_t experts, std::uint32_t top_k,
                         double mb) {
    return Row{std::move(id),
               std::move(repo),
               Layout::qwen3_5_moe,
               hidden,
               hidden,
               ffn,
               layers,
               layers,
               experts,
               top_k,
               1,
               ffn,
               1,
               Scoring::softmax,
               1,
               Activation::silu,
               mb};
  };
  const auto kimi = [](std::string id, std::string repo, Layout layout) {
    return Row{std::move(id),
               std::move(repo),
               layout,
               7168,
               7168,
               2048,
               61,
               60,
               384,
               8,
               1,
               2048,
               0,
               Scoring::sigmoid,
               2.827,
               Activation::silu,
               88.1};
  };
  const auto glm = [](std::string id, std::string repo) {
    return Row{std::move(id),
               std::move(repo),
               Layout::deepseek_v3,
               6144,
               6144,
               2048,
               78,
               75,
               256,
               8,
               1,
               2048,
               1,
               Scoring::sigmoid,
               2.5,
               Activation::silu,
               75.5};
  };
  const auto gemma = [](std::string id, std::string repo, Layout layout) {
    return Row{std::move(id),
               std::move(repo),
               layout,
               2816,
               2816,
               704,
               30,
               30,
               128,
               8,
               0,
               0,
               0,
               Scoring::softmax,
               1,
               Activation::gelu_tanh,
               11.9};
  };
  return {
      {"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", Layout::qwen3_moe, 2048, 2048, 768, 48, 48, 128, 8, 0,
       0, 0, Scoring::softmax, 1, Activation::silu, 9.4},
      {"qwen3-coder-30b-a3b", "Qwen/Qwen3-Coder-30B-A3B-Instruct", Layout::qwen3_moe, 2048, 2048,
       768, 48, 48, 128, 8, 0, 0, 0, Scoring::softmax, 1, Activation::silu, 9.4},
      {"qwen3-coder-next", "Qwen/Qwen3-Coder-Next", Layout::qwen3_next, 2048, 2048, 512, 48, 48,
       512, 10, 1, 512, 0, Scoring::softmax, 1, Activation::silu, 6.3},
      qwen35("qwen3.5-35b-a3b", "Qwen/Qwen3.5-35B-A3B", 2048, 512, 40, 256, 8, 6.3),
      qwen35("qwen3.5-35b-a3b-mtp", "Qwen/Qwen3.5-35B-A3B", 2048, 512, 40, 256, 8, 6.3),
      qwen35("qwen3.5-122b-a10b", "Qwen/Qwen3.5-122B-A10B", 3072, 1024, 48, 256, 8, 18.9),
      qwen35("qwen3.5-122b-a10b-mtp", "Qwen/Qwen3.5-122B-A10B", 3072, 1024, 48, 256, 8, 18.9),
      qwen35("qwen3.5-397b-a17b", "Qwen/Qwen3.5-397B-A17B", 4096, 1024, 60, 512, 10, 25.2),
      qwen35("qwen3.5-397b-a17b-mtp", "Qwen/Qwen3.5-397B-A17B", 4096, 1024, 60, 512, 10, 25.2),
      qwen35("qwen3.6-35b-a3b", "Qwen/Qwen3.6-35B-A3B", 2048, 512, 40, 256, 8, 6.3),
      qwen35("qwen3.6-35b-a3b-mtp", "Qwen/Qwen3.6-35B-A3B", 2048, 512, 40, 256, 8, 6.3),
      gemma("gemma4-26b-a4b", "google/gemma-4-26B-A4B-it", Layout::gemma4),
      gemma("diffusiongemma-26b-a4b", "google/diffusiongemma-26B-A4B-it", Layout::diffusion_gemma),
      kimi("kimi-k2-instruct", "moonshotai/Kimi-K2-Instruct", Layout::deepseek_v3),
      kimi("kimi-k2.5", "moonshotai/Kimi-K2.5", Layout::kimi_k25),
      kimi("kimi-k2.6", "moonshotai/Kimi-K2.6", Layout::kimi_k25),
      kimi("kimi-k2.7-code", "moonshotai/Kimi-K2.7-Code", Layout::kimi_k25),
      {"kimi-k3", "moonshotai/Kimi-K3", Layout::kimi_k3, 7168, 3584, 3072, 93, 92, 896, 16, 2, 6144,
       0, Scoring::sigmoid, 1, Activation::situ, 66.1},
      {"minimax-m1-40b", "MiniMaxAI/MiniMax-M1-40k", Layout::minimax_m1, 6144, 6144, 9216, 80, 80,
       32, 2, 0, 0, 0, Scoring::softmax, 1, Activation::silu, 340},
      {"minimax-m3", "MiniMaxAI/MiniMax-M3", Layout::minimax_m3, 6144, 6144, 3072, 60, 57, 128, 4,
       1, 3072, 0, Scoring::sigmoid, 2, Activation::swigluoai, 113},
      {"deepseek-v3-0324", "deepseek-ai/DeepSeek-V3-0324", Layout::deepseek_v3, 7168, 7168, 2048,
       61, 58, 256, 8, 1, 2048, 1, Scoring::sigmoid, 2.5, Activation::silu, 88.1},
      {"deepseek-v4-flash", "deepseek-ai/DeepSeek-V4-Flash", Layout::deepseek_v4, 4096, 4096, 2048,
       43, 43, 256, 6, 1, 2048, 1, Scoring::sqrtsoftplus, 1.5, Activation::silu_clamped, 50.3},
      {"deepseek-v4-pro", "deepseek-ai/DeepSeek-V4-Pro", Layout::deepseek_v4, 7168, 7168, 3072, 61,
       61, 384, 6, 1, 3072, 1, Scoring::sqrtsoftplus, 2.5, Activation::silu_clamped, 132},
      glm("glm-5", "zai-org/GLM-5"),
      glm("glm-5.1", "zai-org/GLM-5.1"),
      glm("glm-5.2", "zai-org/GLM-5.2"),
      {"nemotron-nano-30b-a3b", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", Layout::nemotron_h,
       2688, 2688, 1856, 52, 23, 128, 6, 1, 3712, 0, Scoring::sigmoid, 2.5, Activation::relu2, 20},
      {"gpt-oss-120b", "openai/gpt-oss-120b", Layout::gpt_oss, 2880, 2880, 2880, 36, 36, 128, 4, 0,
       0, 0, Scoring::softmax, 1, Activation::swigluoai, 49.8},
  };
}

const Catalog& builtin() {
  static const Result<Catalog> catalog = Catalog::builtin();
  EXPECT_TRUE(catalog) << catalog.error().message();
  return *catalog;
}

class BuiltinModel : public ::testing::TestWithParam<Row> {};

TEST_P(BuiltinModel, HasItsPublishedShape) {
  const Row& row = GetParam();
  const Model* model = builtin().find(row.id);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->id, row.id);
  EXPECT_EQ(model->repo, row.repo);
  EXPECT_EQ(model->layout, row.layout);
  ASSERT_TRUE(model->is_moe());
  EXPECT_EQ(model->moe->num_experts, row.experts);
  EXPECT_EQ(model->moe->experts_per_token, row.top_k);
  EXPECT_EQ(model->moe->shared_experts, row.shared);
  EXPECT_EQ(model->hidden, row.hidden);
  EXPECT_EQ(model->expert_width, row.expert_width);
  EXPECT_EQ(model->expert_ffn, row.expert_ffn);
  EXPECT_EQ(model->shared_ffn, row.shared_ffn);
  EXPECT_EQ(model->layers, row.layers);
  EXPECT_EQ(model->moe_layers(), row.moe_layers);
  EXPECT_EQ(model->mtp_layers, row.mtp_layers);
}

TEST_P(BuiltinModel, HasItsRouter) {
  const Row& row = GetParam();
  const Model* model = builtin().find(row.id);
  ASSERT_NE(model, nullptr);
  const wire::RouterSpec& router = model->router;
  EXPECT_TRUE(router.declared);
  EXPECT_EQ(router.scoring, row.scoring);
  EXPECT_EQ(router.scale, row.scale);
  EXPECT_EQ(router.top_k, row.top_k);
  EXPECT_EQ(router.shared_count, row.shared);
  EXPECT_EQ(router.epsilon, row.scoring == Scoring::softmax ? 0.0 : 1e-20);
  EXPECT_TRUE(router.normalize);
  EXPECT_FALSE(router.epsilon_is_floor);
  EXPECT_EQ(model->ffn.activation, row.activation);
  const bool is_v3 = row.id == "deepseek-v3-0324";
  EXPECT_EQ(router.n_group, is_v3 ? 8U : 1U);
  EXPECT_EQ(router.topk_group, is_v3 ? 4U : 1U);
}

TEST_P(BuiltinModel, AnExpertHasItsPublishedSize) {
  const Row& row = GetParam();
  const Model* model = builtin().find(row.id);
  ASSERT_NE(model, nullptr);
  const double matrices = row.activation == Activation::relu2 ? 2 : 3;
  const double params = matrices * model->expert_width * model->expert_ffn;
  EXPECT_NEAR(params * 2 / 1e6, row.bf16_mb, 0.01 * row.bf16_mb);
  const double tenths = params * model->moe_layers() / 1e8;
  EXPECT_NEAR(model->moe->params_per_expert_x10.value_or(0), tenths, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Table, BuiltinModel, ::testing::ValuesIn(rows()), [](const auto& one) {
  std::string name = one.param.id;
  for (char& c : name) {
    if (c == '.' || c == '-') c = '_';
  }
  return name;
});

TEST(BuiltinCatalog, HoldsExactlyTheTableAndTheDenseModels) {
  std::size_t dense = 0;
  for (const auto& [id, model] : builtin().models()) {
    if (model.is_moe()) continue;
    ++dense;
    EXPECT_EQ(model.layout, Layout::dense) << id;
    EXPECT_EQ(model.architecture, "Qwen35") << id;
    EXPECT_TRUE(id.ends_with("-mtp")) << id;
    EXPECT_FALSE(model.has_experts(0)) << id;
  }
  EXPECT_EQ(dense, 5U);
  EXPECT_EQ(builtin().models().size(), rows().size() + dense);
}

TEST(BuiltinCatalog, SpecialRoutersAreSpelledOut) {
  const Model& qwen = *builtin().find("qwen3.6-35b-a3b");
  EXPECT_EQ(qwen.router.shared_gate, wire::SharedGate::sigmoid);
  EXPECT_EQ(builtin().find("deepseek-v3-0324")->router.shared_gate, wire::SharedGate::none);
  EXPECT_EQ(builtin().find("minimax-m3")->router.scale_on, wire::ScaleOn::output);
  EXPECT_EQ(builtin().find("kimi-k3")->router.scale_on, wire::ScaleOn::weights);
  const Model& oss = *builtin().find("gpt-oss-120b");
  EXPECT_EQ(oss.router.order, wire::SelectionOrder::topk_then_softmax);
  EXPECT_EQ(oss.router.bias_on, wire::BiasOn::logits);
  EXPECT_EQ(oss.ffn.limit, 7.0F);
  EXPECT_EQ(builtin().find("gemma4-26b-a4b")->router.input_norm, wire::InputNorm::rms);
  EXPECT_EQ(builtin().find("deepseek-v4-pro")->ffn.limit, 10.0F);
}

TEST(BuiltinCatalog, KnowsWhichLayersHoldExperts) {
  const Model& v3 = *builtin().find("deepseek-v3-0324");
  EXPECT_FALSE(v3.has_experts(2));
  EXPECT_TRUE(v3.has_experts(3));
  EXPECT_TRUE(v3.has_experts(61)) << "multi-token prediction";
  EXPECT_FALSE(v3.has_experts(62));
  EXPECT_FALSE(v3.has_experts(UINT32_MAX));
  const Model& nemotron = *builtin().find("nemotron-nano-30b-a3b");
  EXPECT_FALSE(nemotron.has_experts(0));
  EXPECT_TRUE(nemotron.has_experts(1));
  EXPECT_FALSE(nemotron.has_experts(5));
  EXPECT_TRUE(nemotron.has_experts(51));
  const Model& v4 = *builtin().find("deepseek-v4-flash");
  EXPECT_TRUE(v4.is_hash_routed(2));
  EXPECT_FALSE(v4.is_hash_routed(3));
  EXPECT_FALSE(v4.is_hash_routed(43));
}

TEST(BuiltinCatalog, AnUnknownIdIsNotFound) {
  EXPECT_EQ(builtin().find("qwen3-30b-a3"), nullptr);
  EXPECT_EQ(builtin().find(""), nullptr);
}

}  // namespace
}  // namespace tenzro::catalog
