#include "family.hpp"

namespace tenzro::catalog {

namespace {

using compute::Activation;

constexpr std::pair<std::string_view, Layout> kLayouts[] = {
    {"dense", Layout::dense},
    {"qwen3_moe", Layout::qwen3_moe},
    {"qwen3_next", Layout::qwen3_next},
    {"qwen3_5_moe", Layout::qwen3_5_moe},
    {"gemma4", Layout::gemma4},
    {"diffusion_gemma", Layout::diffusion_gemma},
    {"deepseek_v3", Layout::deepseek_v3},
    {"kimi_k25", Layout::kimi_k25},
    {"kimi_k3", Layout::kimi_k3},
    {"deepseek_v4", Layout::deepseek_v4},
    {"minimax_m1", Layout::minimax_m1},
    {"minimax_m3", Layout::minimax_m3},
    {"nemotron_h", Layout::nemotron_h},
    {"gpt_oss", Layout::gpt_oss},
};
constexpr std::pair<std::string_view, Activation> kActivations[] = {
    {"silu", Activation::silu},           {"silu_clamped", Activation::silu_clamped},
    {"swigluoai", Activation::swigluoai}, {"gelu_tanh", Activation::gelu_tanh},
    {"relu2", Activation::relu2},         {"situ", Activation::situ},
};
constexpr std::pair<std::string_view, wire::Scoring> kScorings[] = {
    {"softmax", wire::Scoring::softmax},
    {"sigmoid", wire::Scoring::sigmoid},
    {"sqrtsoftplus", wire::Scoring::sqrtsoftplus},
};
constexpr std::pair<std::string_view, wire::SelectionOrder> kOrders[] = {
    {"score_then_topk", wire::SelectionOrder::score_then_topk},
    {"topk_then_softmax", wire::SelectionOrder::topk_then_softmax},
};
constexpr std::pair<std::string_view, wire::ScaleOn> kScaleOns[] = {
    {"weights", wire::ScaleOn::weights},
    {"output", wire::ScaleOn::output},
};
constexpr std::pair<std::string_view, wire::BiasOn> kBiasOns[] = {
    {"selection", wire::BiasOn::selection},
    {"logits", wire::BiasOn::logits},
};
constexpr std::pair<std::string_view, wire::SharedGate> kSharedGates[] = {
    {"none", wire::SharedGate::none},
    {"sigmoid", wire::SharedGate::sigmoid},
};
constexpr std::pair<std::string_view, wire::InputNorm> kInputNorms[] = {
    {"none", wire::InputNorm::none},
    {"rms", wire::InputNorm::rms},
};

compute::FfnSpec read_ffn(TableReader& from) {
  compute::FfnSpec spec;
  spec.activation = from.choice("activation", kActivations).value_or(spec.activation);
  const auto real = [&from](std::string_view key, float otherwise) {
    const std::optional<double> value = from.real(key);
    return value ? static_cast<float>(*value) : otherwise;
  };
  const bool has_limit = from.real("limit").has_value();
  if (spec.activation == Activation::silu_clamped && !has_limit) {
    from.fail_key("activation", "silu_clamped needs a limit");
  }
  spec.limit = real("limit", spec.limit);
  spec.alpha = real("alpha", spec.alpha);
  spec.beta = real("beta", spec.beta);
  spec.linear_beta = real("linear_beta", spec.linear_beta);
  from.finish();
  return spec;
}

wire::RouterSpec read_router(TableReader& from) {
  constexpr std::uint32_t kGroupsMax = 4096;
  wire::RouterSpec spec;
  spec.declared = true;
  spec.scoring = from.choice("scoring", kScorings).value_or(spec.scoring);
  spec.order = from.choice("order", kOrders).value_or(spec.order);
  spec.normalize = from.boolean("normalize").value_or(spec.normalize);
  const bool is_softmax = spec.scoring == wire::Scoring::softmax;
  spec.epsilon = from.real("epsilon").value_or(is_softmax ? 0.0 : 1e-20);
  spec.scale = from.real("scale").value_or(spec.scale);
  spec.scale_on = from.choice("scale_on", kScaleOns).value_or(spec.scale_on);
  spec.n_group = from.number("n_group", kGroupsMax).value_or(spec.n_group);
  spec.topk_group = from.number("topk_group", kGroupsMax).value_or(spec.n_group);
  spec.bias_on = from.choice("bias_on", kBiasOns).value_or(spec.bias_on);
  spec.shared_gate = from.choice("shared_gate", kSharedGates).value_or(spec.shared_gate);
  spec.input_norm = from.choice("input_norm", kInputNorms).value_or(spec.input_norm);
  spec.input_norm_eps = from.real("input_norm_eps").value_or(spec.input_norm_eps);
  spec.latent_norm_eps = from.real("latent_norm_eps").value_or(spec.latent_norm_eps);
  if (spec.n_group == 0) from.fail_key("n_group", "want at least 1");
  if (spec.topk_group == 0 || spec.topk_group > spec.n_group) {
    from.fail_key("topk_group", "want 1 to n_group");
  }
  if (spec.order == wire::SelectionOrder::topk_then_softmax && !is_softmax) {
    from.fail_key("order", "topk_then_softmax goes with scoring softmax only");
  }
  from.finish();
  return spec;
}

}  // namespace

std::string_view name_of(Layout layout) {
  for (const auto& [name, value] : kLayouts) {
    if (value == layout) return name;
  }
  return "unknown";
}

Family read_family(const toml::table& table, const std::string& name, FirstError& error) {
  const std::string called = "[family." + name + "]";
  TableReader from(table, called, error);
  Family family;
  family.architecture = from.required_text("architecture");
  static_cast<void>(from.required_text("layout"));
  family.layout = from.choice("layout", kLayouts).value_or(family.layout);
  const toml::table empty;
  const toml::table* ffn = from.table("ffn");
  TableReader ffn_reader(ffn != nullptr ? *ffn : empty, called + " ffn", error);
  family.ffn = read_ffn(ffn_reader);
  const toml::table* router = from.table("router");
  TableReader router_reader(router != nullptr ? *router : empty, called + " router", error);
  family.router = read_router(router_reader);
  from.finish();
  return family;
}

}  // namespace tenzro::catalog
