// Goal: a checkpoint of every family, under its real tensor names, becomes blobs that give the
// outputs of the family's reference class.
// Method: the goldens of tests/data/router are the checkpoints; gate and experts are planned, read
// range by range, built, parsed as a holder parses them, and forwarded by a naive layer. Expert
// blobs must also equal, byte for byte, those made from tests/support's own reading of the same
// file.
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "support/tensor_table.hpp"
#include "unit/prepare/prepared_layer.hpp"

namespace tenzro::prepare {
namespace {

using testing::checkpoint_of;
using testing::FamilyCase;
using testing::SourceFile;

const std::string kFolder = std::string(TENZRO_TEST_DATA) + "/router";

struct Checkpointed {
  const char* name;  ///< of the golden case
  const char* file;
  LayerIndex layer;
  /// What the family's config.json says, beside what the golden file's metadata says.
  const char* config;
  /// Added to every selection bias.
  float bias_shift = 0;
};

void PrintTo(const Checkpointed& one, std::ostream* out) {
  *out << one.name;
}

constexpr const char* kDeepseek =
    R"({"model_type":"deepseek_v3","hidden_size":32,"moe_intermediate_size":8,"n_routed_experts":256,
        "num_experts_per_tok":8,"n_group":8,"topk_group":4,"routed_scaling_factor":2.5,
        "norm_topk_prob":true,"n_shared_experts":1,"scoring_func":"sigmoid","num_hidden_layers":61,
        "first_k_dense_replace":3,"num_nextn_predict_layers":1,"moe_layer_freq":1,
        "quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})";
constexpr const char* kDeepseekWithoutNorm =
    R"({"model_type":"deepseek_v3","hidden_size":32,"moe_intermediate_size":8,"n_routed_experts":256,
        "num_experts_per_tok":8,"n_group":8,"topk_group":4,"routed_scaling_factor":2.5,
        "norm_topk_prob":false,"n_shared_experts":1,"num_hidden_layers":61,
        "first_k_dense_replace":3})";
constexpr const char* kDeepseekV4 =
    R"({"model_type":"deepseek_v4","hidden_size":32,"moe_intermediate_size":16,
        "n_routed_experts":32,"num_experts_per_tok":6,"n_shared_experts":1,
        "routed_scaling_factor":1.5,"swiglu_limit":1.0,"scoring_func":"sqrtsoftplus",
        "num_hash_layers":1,"num_hidden_layers":2})";

constexpr Checkpointed kCases[] = {
    {"qwen3_moe_norm", "qwen3_moe", 0,
     R"({"model_type":"qwen3_moe","hidden_size":32,"moe_intermediate_size":16,"num_experts":128,
         "num_experts_per_tok":8,"norm_topk_prob":true,"num_hidden_layers":48,
         "decoder_sparse_step":1,"mlp_only_layers":[]})"},
    {"qwen3_moe_nonorm", "qwen3_moe", 0,
     R"({"model_type":"qwen3_moe","hidden_size":32,"moe_intermediate_size":16,"num_experts":128,
         "num_experts_per_tok":8,"num_hidden_layers":48})"},
    {"qwen3_5_moe", "qwen3_5_moe", 0,
     R"({"model_type":"qwen3_5_moe","text_config":{"model_type":"qwen3_5_moe_text","hidden_size":32,
         "moe_intermediate_size":8,"shared_expert_intermediate_size":8,"num_experts":64,
         "num_experts_per_tok":8,"num_hidden_layers":40,"mtp_num_hidden_layers":1,
         "hidden_act":"silu"}})"},
    {"deepseek_v3_main", "deepseek_v3", 3, kDeepseek},
    {"deepseek_v3_nonorm", "deepseek_v3", 3, kDeepseekWithoutNorm},
    {"deepseek_v3_negbias", "deepseek_v3", 3, kDeepseek, -2.0F},
    {"kimi_k2", "kimi_k2", 3,
     R"({"model_type":"kimi_k2","hidden_size":32,"moe_intermediate_size":4,"n_routed_experts":384,
         "num_experts_per_tok":8,"n_group":1,"topk_group":1,"routed_scaling_factor":2.827,
         "norm_topk_prob":true,"n_shared_experts":1,"num_hidden_layers":61,
         "first_k_dense_replace":1})"},
    {"glm5", "glm5", 3,
     R"({"model_type":"glm_moe_dsa","hidden_size":32,"moe_intermediate_size":8,
         "n_routed_experts":64,"num_experts_per_tok":8,"n_group":1,"topk_group":1,
         "routed_scaling_factor":2.5,"norm_topk_prob":true,"n_shared_experts":1,
         "num_hidden_layers":78,"mlp_layer_types":null,"first_k_dense_replace":3})"},
    {"deepseek_v4_hash", "deepseek_v4", 0, kDeepseekV4},
    {"deepseek_v4_topk", "deepseek_v4", 1, kDeepseekV4},
    {"gpt_oss", "gpt_oss", 0,
     R"({"model_type":"gpt_oss","hidden_size":32,"intermediate_size":16,"num_local_experts":128,
         "num_experts_per_tok":4,"swiglu_limit":7.0,"num_hidden_layers":36,"hidden_act":"silu"})"},
    {"gemma4", "gemma4", 0,
     R"({"model_type":"gemma4","text_config":{"model_type":"gemma4_text","hidden_size":32,
         "moe_intermediate_size":8,"num_experts":128,"top_k_experts":8,"rms_norm_eps":1e-06,
         "hidden_activation":"gelu_pytorch_tanh","num_hidden_layers":30}})"},
    {"minimax_m1", "minimax_m1", 0,
     R"({"model_type":"minimax","hidden_size":32,"intermediate_size":16,"num_local_experts":32,
         "num_experts_per_tok":2,"num_hidden_layers":80})"},
    {"minimax_m3", "minimax_m3", 3,
     R"({"model_type":"minimax_m3_vl","text_config":{"hidden_size":32,"intermediate_size":8,
         "shared_intermediate_size":8,"num_local_experts":128,"num_experts_per_tok":4,
         "routed_scaling_factor":2.0,"swiglu_alpha":1.702,"swiglu_limit":7.0,
         "num_hidden_layers":4,"moe_layer_freq":[0,0,0,1]}})"},
    {"nemotron_h", "nemotron_h", 1,
     R"({"model_type":"nemotron_h","hidden_size":32,"moe_intermediate_size":16,
         "moe_shared_expert_intermediate_size":32,"n_routed_experts":64,"num_experts_per_tok":6,
         "routed_scaling_factor":2.5,"n_group":1,"topk_group":1,"n_shared_experts":1,
         "norm_topk_prob":true,"mlp_hidden_act":"relu2","num_hidden_layers":4,
         "hybrid_override_pattern":"ME*E"})"},
    {"kimi_k3", "kimi_k3_port", 1,
     R"({"model_type":"kimi_k3","text_config":{"hidden_size":64,"routed_expert_hidden_size":32,
         "moe_intermediate_size":16,"num_experts":48,"num_experts_per_token":16,
         "num_shared_experts":2,"routed_scaling_factor":1.0,"activation_situ_beta":4.0,
         "activation_situ_linear_beta":25.0,"rms_norm_eps":1e-05,"latent_moe_use_norm":true,
         "moe_renormalize":true,"moe_router_activation_func":"sigmoid","num_hidden_layers":93,
         "first_k_dense_replace":1}})"},
};

class FamilyLayouts : public ::testing::TestWithParam<Checkpointed> {};

void shift_bias(SourceFile& file, float by) {
  if (by == 0) return;
  const work::SourceTensor& bias = file.at("model.layers.3.mlp.gate.e_score_correction_bias");
  for (std::uint64_t at = bias.begin; at < bias.end; at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, file.bytes().data() + at, sizeof value);
    value += by;
    std::memcpy(file.bytes().data() + at, &value, sizeof value);
  }
}

SourceFile file_of(const Checkpointed& one) {
  SourceFile file(testing::read_file(kFolder + "/" + one.file + ".safetensors"));
  shift_bias(file, one.bias_shift);
  return file;
}

TEST_P(FamilyLayouts, BlobsOfACheckpointGiveTheReferenceClassesOutput) {
  const FamilyCase golden = testing::load_family_case(GetParam().name, kFolder);
  const std::vector<float> output = testing::forward_prepared(
      file_of(GetParam()), checkpoint_of(GetParam().config), GetParam().layer, golden);
  EXPECT_LT(testing::relative_error(output, golden.output), 1e-4);
}

TEST_P(FamilyLayouts, AnIndexNamesExactlyTheTensorsThatThePlansRead) {
  const SourceFile file = file_of(GetParam());
  const Checkpoint checkpoint = checkpoint_of(GetParam().config);
  std::vector<ExpertIndex> all(checkpoint.expert_ids());
  for (ExpertIndex e = 0; e < all.size(); ++e) all[e] = e;
  const auto wanted = wanted_tensors(checkpoint, GetParam().layer, all, true,
                                     [&](const std::string& name) { return file.has(name); });
  ASSERT_TRUE(wanted) << wanted.error().message();
  std::set<std::string> read;
  const auto gate = plan_gate(checkpoint, GetParam().layer, file.finder());
  ASSERT_TRUE(gate) << gate.error().message();
  for (const Read& one : gate->reads) read.insert(one.tensor);
  for (const ExpertIndex e : all) {
    const auto plan = plan_expert(checkpoint, GetParam().layer, e, file.finder());
    ASSERT_TRUE(plan) << plan.error().message();
    for (const Read& one : plan->reads) read.insert(one.tensor);
  }
  EXPECT_EQ(std::set<std::string>(wanted->begin(), wanted->end()), read);
}

TEST_P(FamilyLayouts, EveryTensorItNeedsIsMissedByName) {
  const SourceFile file = file_of(GetParam());
  const Checkpoint checkpoint = checkpoint_of(GetParam().config);
  const std::vector<ExpertIndex> experts{0, checkpoint.expert_ids() - 1};
  const auto has = [&](const std::string& name) { return file.has(name); };
  const auto wanted = wanted_tensors(checkpoint, GetParam().layer, experts, true, has);
  ASSERT_TRUE(wanted) << wanted.error().message();
  for (const std::string& gone : *wanted) {
    const auto refused =
        wanted_tensors(checkpoint, GetParam().layer, experts, true,
                       [&](const std::string& name) { return name != gone && file.has(name); });
    ASSERT_FALSE(refused) << gone;
    EXPECT_NE(refused.error().message().find("is missing"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, FamilyLayouts, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(FamilyLayoutsTable, EveryGoldenCaseIsPrepared) {
  std::set<std::string> names;
  for (const Checkpointed& one : kCases) names.insert(one.name);
  const auto all = testing::family_case_names();
  EXPECT_EQ(names, std::set<std::string>(all.begin(), all.end()));
}

TEST(FamilyLayoutsTable, EveryModelOfTheCatalogueHasALayoutOfItsOwn) {
  for (const char* type :
       {"qwen3_moe", "qwen3_next", "qwen3_5_moe", "gemma4", "diffusion_gemma", "deepseek_v3",
        "kimi_k2", "kimi_k25", "kimi_k3", "deepseek_v4", "minimax", "minimax_m1", "minimax_m3_vl",
        "nemotron_h", "gpt_oss", "glm_moe_dsa"}) {
    EXPECT_NE(find_family(type), nullptr) << type;
  }
  EXPECT_EQ(find_family("llama"), nullptr);
  EXPECT_EQ(find_family(""), nullptr);
}

}  // namespace
}  // namespace tenzro::prepare
