#include "support/family_golden.hpp"

#include <functional>

namespace tenzro::testing {

namespace {

/// How a case is read: its file, the tail of its golden names, and its layer.
struct Recipe {
  std::string name;
  std::string file;
  std::string golden;  ///< "golden." or "golden.<variant>."
  std::function<FamilyLayer(const Tensors&)> layer;
};

std::vector<Recipe> recipes() {
  const std::string deepseek = "model.layers.3.mlp.";
  const auto v3 = [deepseek](DeepseekSpec spec) {
    return
        [deepseek, spec](const Tensors& from) { return deepseek_v3_layer(from, deepseek, spec); };
  };
  const DeepseekSpec main{.n_group = 8, .topk_group = 4, .scale = 2.5};
  DeepseekSpec without_norm = main;
  without_norm.normalize = false;
  DeepseekSpec negative_bias = main;
  negative_bias.bias_shift = -2.0F;
  const auto qwen3 = [](bool normalize) {
    return [normalize](const Tensors& from) {
      return qwen3_layer(from, "model.layers.0.mlp.", 8, normalize);
    };
  };
  const auto v4 = [](const char* prefix) {
    return [prefix](const Tensors& from) { return deepseek_v4_layer(from, prefix, 6, 1.5, 1.0F); };
  };
  return {
      {"qwen3_moe_norm", "qwen3_moe", "golden.norm.", qwen3(true)},
      {"qwen3_moe_nonorm", "qwen3_moe", "golden.nonorm.", qwen3(false)},
      {"qwen3_5_moe", "qwen3_5_moe", "golden.",
       [](const Tensors& from) {
         return qwen3_5_layer(from, "model.language_model.layers.0.mlp.", 8);
       }},
      {"deepseek_v3_main", "deepseek_v3", "golden.main.", v3(main)},
      {"deepseek_v3_nonorm", "deepseek_v3", "golden.nonorm.", v3(without_norm)},
      {"deepseek_v3_negbias", "deepseek_v3", "golden.negbias.", v3(negative_bias)},
      {"kimi_k2", "kimi_k2", "golden.main.", v3({.scale = 2.827})},
      {"glm5", "glm5", "golden.main.", v3({.scale = 2.5})},
      {"deepseek_v4_hash", "deepseek_v4", "golden.hash.", v4("layers.0.ffn.")},
      {"deepseek_v4_topk", "deepseek_v4", "golden.topk.", v4("layers.1.ffn.")},
      {"gpt_oss", "gpt_oss", "golden.",
       [](const Tensors& from) { return gpt_oss_layer(from, "model.layers.0.mlp.", 4); }},
      {"gemma4", "gemma4", "golden.",
       [](const Tensors& from) { return gemma4_layer(from, "model.language_model.layers.0.", 8); }},
      {"minimax_m1", "minimax_m1", "golden.",
       [](const Tensors& from) {
         return minimax_m1_layer(from, "model.layers.0.block_sparse_moe.", 2);
       }},
      {"minimax_m3", "minimax_m3", "golden.",
       [](const Tensors& from) {
         return minimax_m3_layer(from, "language_model.model.layers.3.block_sparse_moe.", 4, 2.0);
       }},
      {"nemotron_h", "nemotron_h", "golden.",
       [](const Tensors& from) {
         return nemotron_layer(from, "backbone.layers.1.mixer.", 6, 2.5);
       }},
      {"kimi_k3", "kimi_k3_port", "golden.",
       [](const Tensors& from) {
         return kimi_k3_layer(from, "language_model.model.layers.1.block_sparse_moe.", 16);
       }},
  };
}

/// `variant`'s own tensor, else the one that all variants of the file share.
std::string golden_name(const TensorTable& from, const std::string& variant,
                        const std::string& tail) {
  return from.has(variant + tail) ? variant + tail : "golden." + tail;
}

FamilyCase read_case(const Recipe& recipe, const std::string& folder) {
  const std::vector<std::string> paths{folder + "/" + recipe.file + ".safetensors"};
  const auto tensors = std::make_shared<const TensorTable>(paths);
  FamilyCase out;
  out.name = recipe.name;
  out.layer = recipe.layer(tensors);
  const auto named = [&](const char* tail) { return golden_name(*tensors, recipe.golden, tail); };
  out.hidden = tensors->floats("golden.hidden_states");
  out.tokens = static_cast<std::uint32_t>(out.hidden.size() / out.layer.gate.d_model);
  out.ids = tensors->integers(named("topk_ids"));
  out.top_k = static_cast<std::uint32_t>(out.ids.size() / out.tokens);
  out.weights = tensors->floats(named("topk_weights"));
  if (tensors->has(named("router_logits"))) out.logits = tensors->floats(named("router_logits"));
  if (out.layer.gate.is_hash_routed()) out.token_ids = tensors->integers("golden.input_ids");
  const std::string output = named("output");
  out.output = tensors->floats(tensors->has(output) ? output : named("routed_output"));
  return out;
}

}  // namespace

std::vector<std::string> family_case_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  return names;
}

FamilyCase load_family_case(const std::string& name, const std::string& folder) {
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) return read_case(recipe, folder);
  }
  stop("no family case " + name);
}

}  // namespace tenzro::testing
