#include "family.hpp"

#include "pattern.hpp"

namespace tenzro::prepare {
namespace {

using compute::Activation;
using wire::Scoring;

constexpr ExpertNames kEachNamed{
    .gate = "experts.{E}.gate_proj", .up = "experts.{E}.up_proj", .down = "experts.{E}.down_proj"};
constexpr ExpertNames kEachNumbered{
    .gate = "experts.{E}.w1", .up = "experts.{E}.w3", .down = "experts.{E}.w2"};
constexpr ExpertNames kFused{
    .storage = Storage::fused_slabs, .up = "experts.gate_up_proj", .down = "experts.down_proj"};
constexpr ExpertNames kAlternating{.storage = Storage::fused_slabs,
                                   .up = "experts.gate_up_proj",
                                   .down = "experts.down_proj",
                                   .alternates = true,
                                   .plain_is_transposed = true,
                                   .has_biases = true};

constexpr ExpertNames kNamed[]{kEachNamed, kFused};
constexpr ExpertNames kNumbered[]{kEachNumbered, kFused};
constexpr ExpertNames kSlabs[]{kFused, kEachNamed};
constexpr ExpertNames kAlternatingSlabs[]{kAlternating};
constexpr ExpertNames kTwoMatrices[]{
    {.up = "experts.{E}.up_proj", .down = "experts.{E}.down_proj"},
    {.storage = Storage::slabs, .up = "experts.up_proj", .down = "experts.down_proj"}};

constexpr ExpertNames kSharedExpert[]{{.gate = "shared_expert.gate_proj",
                                       .up = "shared_expert.up_proj",
                                       .down = "shared_expert.down_proj"}};
constexpr ExpertNames kSharedExperts[]{{.gate = "shared_experts.gate_proj",
                                        .up = "shared_experts.up_proj",
                                        .down = "shared_experts.down_proj"}};
constexpr ExpertNames kSharedNumbered[]{
    {.gate = "shared_experts.w1", .up = "shared_experts.w3", .down = "shared_experts.w2"}};
constexpr ExpertNames kSharedTwo[]{
    {.up = "shared_experts.up_proj", .down = "shared_experts.down_proj"}};

constexpr std::string_view kCorrectionBias = "gate.e_score_correction_bias";
constexpr GateNames kBiased{.bias = kCorrectionBias};
constexpr GateNames kSharedGated{.shared_gate = "shared_expert_gate.weight"};
constexpr GateNames kGemmaGate{.router = "router.proj.weight",
                               .per_expert_scale = "router.per_expert_scale",
                               .input_scale = "router.scale"};

constexpr ConfigKeys kDeepseekKeys{.experts = "n_routed_experts",
                                   .shared_count = "n_shared_experts",
                                   .dense_first = "first_k_dense_replace",
                                   .mtp_layers = "num_nextn_predict_layers",
                                   .scale = "routed_scaling_factor",
                                   .normalize = "norm_topk_prob",
                                   .groups = "n_group",
                                   .groups_used = "topk_group",
                                   .scoring = "scoring_func"};

constexpr wire::RouterSpec kSoftmax{.declared = true};
constexpr wire::RouterSpec kSoftmaxRaw{.normalize = false, .declared = true};
constexpr wire::RouterSpec kSoftmaxGatedShared{.shared_gate = wire::SharedGate::sigmoid,
                                               .declared = true};
constexpr wire::RouterSpec kSigmoid{
    .scoring = Scoring::sigmoid, .epsilon = 1e-20, .declared = true};
constexpr wire::RouterSpec kGemmaRouter{.input_norm = wire::InputNorm::rms, .declared = true};

constexpr Family kGemma{.model_types = "gemma4|gemma4_text",
                        .prefixes = "model.language_model.layers.{L}.|model.layers.{L}.",
                        .gate = kGemmaGate,
                        .experts = kSlabs,
                        .keys = {.top_k = "top_k_experts|num_experts_per_tok",
                                 .activation = "hidden_activation|hidden_act"},
                        .activations = "gelu_pytorch_tanh",
                        .router = kGemmaRouter,
                        .ffn = {.activation = Activation::gelu_tanh},
                        .divides_by_root_width = true};

constexpr Family with_names(Family family, std::string_view types, std::string_view prefixes) {
  family.model_types = types;
  family.prefixes = prefixes;
  return family;
}

constexpr Family kDeepseekV3{.model_types = "deepseek_v3|kimi_k2|glm_moe_dsa",
                             .prefixes = "model.layers.{L}.mlp.",
                             .gate = kBiased,
                             .experts = kNamed,
                             .shared = kSharedExperts,
                             .keys = kDeepseekKeys,
                             .scorings = "sigmoid",
                             .router = kSigmoid};

constexpr Family kFamilies[]{
    {.model_types = "qwen3_moe",
     .prefixes = "model.layers.{L}.mlp.",
     .experts = kNamed,
     .keys = {.normalize = "norm_topk_prob"},
     .router = kSoftmaxRaw},
    {.model_types = "qwen3_next",
     .prefixes = "model.layers.{L}.mlp.",
     .mtp_prefix = "mtp.layers.{M}.mlp.",
     .gate = kSharedGated,
     .experts = kNamed,
     .shared = kSharedExpert,
     .keys = {.shared_ffn = "shared_expert_intermediate_size",
              .mtp_layers = "num_nextn_predict_layers",
              .normalize = "norm_topk_prob"},
     .shared_count = 1,
     .mtp_count = 1,
     .router = kSoftmaxGatedShared},
    {.model_types = "qwen3_5_moe|qwen3_5_moe_text",
     .prefixes = "model.language_model.layers.{L}.mlp.|model.layers.{L}.mlp.",
     .mtp_prefix = "mtp.layers.{M}.mlp.",
     .gate = kSharedGated,
     .experts = kSlabs,
     .shared = kSharedExpert,
     .keys = {.shared_ffn = "shared_expert_intermediate_size",
              .mtp_layers = "mtp_num_hidden_layers"},
     .shared_count = 1,
     .router = kSoftmaxGatedShared},
    kGemma,
    with_names(kGemma, "diffusion_gemma|diffusion_gemma_text", "model.decoder.layers.{L}."),
    kDeepseekV3,
    with_names(kDeepseekV3, "kimi_k25",
               "language_model.model.layers.{L}.mlp.|model.layers.{L}.mlp."),
    {.model_types = "kimi_k3",
     .prefixes =
         "language_model.model.layers.{L}.block_sparse_moe.|model.layers.{L}.block_sparse_moe.",
     .gate = {.bias = kCorrectionBias,
              .latent_down = "routed_expert_down_proj.weight",
              .latent_norm = "routed_expert_norm.weight",
              .latent_up = "routed_expert_up_proj.weight"},
     .experts = kNumbered,
     .shared = kSharedExperts,
     .keys = {.top_k = "num_experts_per_token|num_experts_per_tok",
              .shared_count = "num_shared_experts",
              .latent = "routed_expert_hidden_size",
              .dense_first = "first_k_dense_replace",
              .scale = "routed_scaling_factor",
              .normalize = "moe_renormalize",
              .groups = "num_expert_group",
              .groups_used = "topk_group",
              .scoring = "moe_router_activation_func",
              .beta = "activation_situ_beta",
              .linear_beta = "activation_situ_linear_beta"},
     .activations = "situ|silu",
     .scorings = "sigmoid",
     .router = kSigmoid,
     .ffn = {.activation = Activation::situ}},
    {.model_types = "deepseek_v4",
     .prefixes = "layers.{L}.ffn.|model.layers.{L}.ffn.",
     .mtp_prefix = "mtp.{M}.ffn.",
     .gate = {.bias = "gate.bias", .table = "gate.tid2eid"},
     .experts = kNumbered,
     .shared = kSharedNumbered,
     .keys = {.experts = "n_routed_experts",
              .shared_count = "n_shared_experts",
              .hash_layers = "num_hash_layers|n_hash_layers",
              .mtp_layers = "num_nextn_predict_layers",
              .scale = "routed_scaling_factor",
              .normalize = "norm_topk_prob",
              .scoring = "scoring_func",
              .limit = "swiglu_limit"},
     .scorings = "sqrtsoftplus",
     .shared_count = 1,
     .router = {.scoring = Scoring::sqrtsoftplus, .epsilon = 1e-20, .declared = true},
     .ffn = {.activation = Activation::silu_clamped, .limit = 0}},
    {.model_types = "minimax|minimax_m1|minimax_text_01",
     .prefixes = "model.layers.{L}.block_sparse_moe.",
     .experts = kNumbered,
     .keys = {.experts = "num_local_experts", .ffn = "intermediate_size"},
     .router = kSoftmax},
    {.model_types = "minimax_m3_vl|minimax_m3_vl_text|minimax_m3",
     .prefixes = "language_model.model.layers.{L}.block_sparse_moe.|"
                 "model.language_model.layers.{L}.block_sparse_moe.|"
                 "model.layers.{L}.block_sparse_moe.",
     .gate = {.bias = "e_score_correction_bias|gate.e_score_correction_bias"},
     .experts = kNumbered,
     .shared = kSharedExperts,
     .keys = {.experts = "num_local_experts",
              .ffn = "intermediate_size",
              .shared_count = "n_shared_experts",
              .shared_ffn = "shared_intermediate_size",
              .dense_first = "first_k_dense_replace",
              .scale = "routed_scaling_factor",
              .scoring = "scoring_func",
              .limit = "swiglu_limit",
              .alpha = "swiglu_alpha"},
     .activations = "swigluoai|silu",
     .scorings = "sigmoid",
     .shared_count = 1,
     .router = {.scoring = Scoring::sigmoid,
                .epsilon = 1e-20,
                .scale_on = wire::ScaleOn::output,
                .declared = true},
     .ffn = {.activation = Activation::swigluoai}},
    {.model_types = "nemotron_h",
     .prefixes = "backbone.layers.{L}.mixer.|model.layers.{L}.mixer.",
     .gate = kBiased,
     .experts = kTwoMatrices,
     .shared = kSharedTwo,
     .keys = {.experts = "n_routed_experts",
              .shared_count = "n_shared_experts",
              .shared_ffn = "moe_shared_expert_intermediate_size",
              .scale = "routed_scaling_factor",
              .normalize = "norm_topk_prob",
              .groups = "n_group",
              .groups_used = "topk_group",
              .activation = "mlp_hidden_act",
              .pattern = "hybrid_override_pattern"},
     .activations = "relu2",
     .shared_count = 1,
     .router = kSigmoid,
     .ffn = {.activation = Activation::relu2}},
    {.model_types = "gpt_oss",
     .prefixes = "model.layers.{L}.mlp.",
     .gate = {.router = "router.weight", .bias = "router.bias"},
     .experts = kAlternatingSlabs,
     .keys = {.experts = "num_local_experts|num_experts",
              .top_k = "num_experts_per_tok|experts_per_token",
              .ffn = "intermediate_size",
              .limit = "swiglu_limit"},
     .router = {.order = wire::SelectionOrder::topk_then_softmax,
                .bias_on = wire::BiasOn::logits,
                .declared = true},
     .ffn = {.activation = Activation::swigluoai}},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (is_one_of(model_type, family.model_types)) return &family;
  }
  return nullptr;
}

}  // namespace tenzro::prepare
