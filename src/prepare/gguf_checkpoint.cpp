#include <algorithm>
#include <array>
#include <optional>

#include "tenzro/base/bytes.hpp"

#include "checkpoint.hpp"
#include "gguf_metadata.hpp"
#include "pattern.hpp"

namespace tenzro::prepare {
namespace {

using compute::Activation;
using wire::Scoring;
using Reader = GgufMetadata;

/// What an architecture does that its metadata does not say.
struct Architecture {
  std::string_view names;
  const Family& (*family)() = gguf_names;
  Scoring scoring = Scoring::softmax;
  bool normalize = true;
  wire::SharedGate shared_gate = wire::SharedGate::none;
  wire::SelectionOrder order = wire::SelectionOrder::score_then_topk;
  wire::BiasOn bias_on = wire::BiasOn::selection;
  wire::ScaleOn scale_on = wire::ScaleOn::weights;
  Activation activation = Activation::silu;
  wire::InputNorm input_norm = wire::InputNorm::none;
  /// The experts' width, where it is not expert_feed_forward_length.
  std::string_view ffn_key = "expert_feed_forward_length";
  /// GLM-4.7 Flash (47 layers and one more) is published under this name too, and by sigmoid.
  bool may_be_glm_flash = false;
};

constexpr std::array kArchitectures{
    Architecture{.names = "qwen3moe"},
    Architecture{.names = "qwen3next|qwen35moe", .shared_gate = wire::SharedGate::sigmoid},
    // Files of DeepSeek V2 say neither; those that mean sigmoid or a norm say so.
    Architecture{.names = "deepseek2|kimi-k2", .normalize = false, .may_be_glm_flash = true},
    Architecture{.names = "glm-dsa", .scoring = Scoring::sigmoid, .normalize = false},
    Architecture{
        .names = "nemotron_h_moe", .scoring = Scoring::sigmoid, .activation = Activation::relu2},
    Architecture{.names = "gpt-oss",
                 .order = wire::SelectionOrder::topk_then_softmax,
                 .bias_on = wire::BiasOn::logits,
                 .activation = Activation::swigluoai},
    Architecture{.names = "gemma4|diffusion-gemma",
                 .family = gguf_gemma_names,
                 .activation = Activation::gelu_tanh,
                 .input_norm = wire::InputNorm::rms},
    Architecture{.names = "deepseek4",
                 .family = gguf_deepseek4_names,
                 .scoring = Scoring::sqrtsoftplus,
                 .normalize = false,
                 .activation = Activation::silu_clamped},
    Architecture{.names = "minimax-01", .ffn_key = "feed_forward_length"},
    Architecture{.names = "minimax-m3",
                 .scoring = Scoring::sigmoid,
                 .normalize = false,
                 .activation = Activation::swigluoai},
    Architecture{.names = "kimi-k3",
                 .family = gguf_kimi_k3_names,
                 .scoring = Scoring::sigmoid,
                 .normalize = false,
                 .activation = Activation::situ},
};

/// Values of expert_gating_func.
enum GatingFunction : std::uint32_t {
  softmax = 1,
  sigmoid = 2,
  softmax_of_selected = 3,
  sqrt_softplus = 4
};

void read_scoring(Reader& reader, const Architecture& architecture, Checkpoint& to) {
  const auto function = reader.optional_count("expert_gating_func", 0, UINT32_MAX);
  const std::uint32_t blocks = to.layers + to.mtp_layers;
  const bool is_unsure = architecture.may_be_glm_flash && (blocks == 47 || blocks == 48);
  if (function.value_or(0) == 0 && is_unsure) reader.refuse("expert_gating_func", "is missing");
  switch (function.value_or(0)) {
    case 0:  // not said: the architecture's own
      break;
    case GatingFunction::softmax:
      to.router.scoring = Scoring::softmax;
      break;
    case GatingFunction::sigmoid:
      to.router.scoring = Scoring::sigmoid;
      break;
    case GatingFunction::softmax_of_selected:
      to.router.scoring = Scoring::softmax;
      to.router.order = wire::SelectionOrder::topk_then_softmax;
      break;
    case GatingFunction::sqrt_softplus:
      to.router.scoring = Scoring::sqrtsoftplus;
      break;
    default:
      reader.refuse("expert_gating_func", std::to_string(*function) + " is not known");
  }
  to.router.epsilon = to.router.scoring == Scoring::softmax ? 0 : 1e-20;
}

void read_router(Reader& reader, const Architecture& architecture, Checkpoint& to) {
  wire::RouterSpec& router = to.router;
  router.declared = true;
  router.scoring = architecture.scoring;
  router.order = architecture.order;
  router.bias_on = architecture.bias_on;
  router.scale_on = architecture.scale_on;
  router.input_norm = architecture.input_norm;
  const double epsilon = reader.number("attention.layer_norm_rms_epsilon", 0);
  if (router.input_norm == wire::InputNorm::rms && epsilon > 0) router.input_norm_eps = epsilon;
  if (to.is_latent() && epsilon > 0) router.latent_norm_eps = epsilon;
  read_scoring(reader, architecture, to);
  router.top_k = reader.count("expert_used_count", to.num_experts);
  router.normalize = reader.boolean("expert_weights_norm", architecture.normalize);
  // Writers leave 0 where there is no scale.
  const double scale = reader.number("expert_weights_scale", 1);
  router.scale = scale == 0 ? 1 : scale;
  router.n_group = reader.optional_count("expert_group_count", 0, to.num_experts).value_or(1);
  if (router.n_group == 0) router.n_group = 1;
  router.topk_group =
      reader.optional_count("expert_group_used_count", 0, router.n_group).value_or(router.n_group);
  if (router.topk_group == 0) router.topk_group = router.n_group;
  if (to.num_experts % router.n_group != 0) {
    reader.refuse("expert_group_count", "does not divide the number of experts");
  }
  router.shared_count = to.shared_experts;
  if (to.shared_experts > 0) router.shared_gate = architecture.shared_gate;
}

void read_shape(Reader& reader, const Architecture& architecture, Checkpoint& to) {
  to.hidden = reader.count("embedding_length", kWidthMax);
  to.expert_width = to.hidden;
  if (!to.family->gate.latent_down.empty())
    to.expert_width = reader.count("expert_latent_length", kWidthMax);
  to.num_experts = reader.count("expert_count", kExpertsMax);
  to.expert_ffn = reader.count(architecture.ffn_key, kWidthMax);
  const bool has_shared = architecture.shared_gate != wire::SharedGate::none;
  to.shared_experts =
      reader.optional_count("expert_shared_count", 0, kSharedMax).value_or(has_shared ? 1 : 0);
  const std::uint64_t fused = std::uint64_t{to.expert_ffn} * to.shared_experts;
  if (fused > kWidthMax) reader.refuse("expert_shared_count", "makes the shared expert too wide");
  to.shared_ffn = static_cast<std::uint32_t>(fused);
  const auto stated = reader.optional_count("expert_shared_feed_forward_length", 0, kWidthMax);
  if (to.shared_experts > 0 && stated.value_or(0) > 0) to.shared_ffn = *stated;
  to.mtp_layers = reader.optional_count("nextn_predict_layers", 0, kLayersMax).value_or(0);
  const std::uint32_t blocks = reader.count("block_count", kLayersMax);
  if (to.mtp_layers >= blocks) reader.refuse("nextn_predict_layers", "leaves no other layer");
  to.layers = blocks - std::min(blocks, to.mtp_layers);
  to.dense_first = reader.optional_count("leading_dense_block_count", 0, kLayersMax).value_or(0);
  if (!to.family->gate.table.empty())
    to.hash_layers = reader.optional_count("hash_layer_count", 0, to.layers).value_or(0);
}

/// The shared expert is clamped as the routed ones unless the file says otherwise.
void read_clamp(Reader& reader, Checkpoint& to) {
  const double limit = reader.number("swiglu_clamp_exp", 0);
  if (!(limit > 0)) reader.refuse("swiglu_clamp_exp", "must be given and above 0");
  const double shared = reader.number("swiglu_clamp_shexp", limit);
  if (to.shared_experts > 0 && shared != limit)
    reader.refuse("swiglu_clamp_shexp", "differs from swiglu_clamp_exp, which is not supported");
  to.ffn.limit = static_cast<float>(limit);
}

void read_ffn(Reader& reader, const Architecture& architecture, Checkpoint& to) {
  to.ffn.activation = architecture.activation;
  if (to.ffn.activation == Activation::silu_clamped) read_clamp(reader, to);
  if (to.ffn.activation != Activation::situ) return;
  to.ffn.beta = static_cast<float>(reader.number("activation.situ_beta", 0));
  to.ffn.linear_beta = static_cast<float>(reader.number("activation.situ_linear_beta", 0));
  if (!(to.ffn.beta > 0)) reader.refuse("activation.situ_beta", "must be given and above 0");
  if (!(to.ffn.linear_beta > 0))
    reader.refuse("activation.situ_linear_beta", "must be given and above 0");
}

}  // namespace

Result<Checkpoint> read_gguf_checkpoint(const GgufMetadata::Entries& metadata) {
  const auto found = metadata.find("general.architecture");
  const auto* name = found == metadata.end() ? nullptr : std::get_if<std::string>(&found->second);
  if (name == nullptr) return fail(ErrorCode::runtime, "general.architecture", "is missing");
  const Architecture* architecture = nullptr;
  for (const Architecture& one : kArchitectures) {
    if (is_one_of(*name, one.names)) architecture = &one;
  }
  if (architecture == nullptr) {
    return fail(ErrorCode::runtime, "",
                "no MoE tensor-naming scheme for architecture '" + echo(*name) + "'");
  }
  Checkpoint checkpoint;
  checkpoint.family = &architecture->family();
  checkpoint.model_type = *name;
  checkpoint.is_gguf = true;
  Reader reader(metadata, *name);
  read_shape(reader, *architecture, checkpoint);
  read_router(reader, *architecture, checkpoint);
  read_ffn(reader, *architecture, checkpoint);
  if (reader.error()) return fail(*reader.error());
  return checkpoint;
}

}  // namespace tenzro::prepare
