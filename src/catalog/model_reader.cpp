#include "model_reader.hpp"

namespace tenzro::catalog {

namespace {

constexpr std::uint32_t kLayersMax = 4096;
constexpr std::uint32_t kWidthMax = 1U << 24U;
constexpr std::uint32_t kExpertsMax = 1U << 20U;
constexpr std::uint32_t kSharedMax = 64;

std::optional<std::uint32_t> params_x10(const Model& model) {
  constexpr std::uint64_t kTenthOfABillion = 100'000'000;
  const std::uint64_t matrices = model.ffn.activation == compute::Activation::relu2 ? 2 : 3;
  // At most 3 · 2^24 · 2^24 · 2^12 < 2^62.
  const std::uint64_t params =
      matrices * model.expert_width * model.expert_ffn * std::uint64_t{model.moe_layers()};
  const std::uint64_t rounded = (params + kTenthOfABillion / 2) / kTenthOfABillion;
  if (rounded == 0 || rounded > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(rounded);
}

void read_layers(TableReader& from, Model& model) {
  model.layers = from.number("layers", kLayersMax).value_or(0);
  model.dense_first = from.number("dense_first", kLayersMax).value_or(0);
  model.hash_layers = from.number("hash_layers", kLayersMax).value_or(0);
  model.mtp_layers = from.number("mtp_layers", kLayersMax).value_or(0);
  model.pattern = from.text("pattern").value_or("");
  if (model.dense_first > model.layers) from.fail_key("dense_first", "more than layers");
  if (model.hash_layers > model.layers) from.fail_key("hash_layers", "more than layers");
  if (!model.pattern.empty() && model.pattern.size() != model.layers) {
    from.fail_key("pattern", "want one character for each of the layers");
  }
}

void require_positive(TableReader& from, std::string_view key, std::uint32_t most) {
  if (from.required_number(key, most) == 0) from.fail_key(key, "want at least 1");
}

void read_moe(TableReader& from, Model& model) {
  for (const char* key : {"layers", "hidden", "expert_ffn", "num_experts", "experts_per_token"}) {
    require_positive(from, key, kWidthMax);
  }
  MoeShape shape;
  shape.num_experts = from.number("num_experts", kExpertsMax).value_or(1);
  shape.experts_per_token = from.number("experts_per_token", kExpertsMax).value_or(1);
  shape.shared_experts = from.number("shared_experts", kSharedMax).value_or(0);
  if (shape.experts_per_token > shape.num_experts) {
    from.fail_key("experts_per_token", "more than num_experts");
  }
  if (model.router.n_group == 0 || shape.num_experts % model.router.n_group != 0) {
    from.fail_key("num_experts", "does not divide by the family's n_group");
  }
  model.expert_ffn = from.number("expert_ffn", kWidthMax).value_or(0);
  model.expert_width = from.number("expert_width", kWidthMax).value_or(model.hidden);
  if (model.expert_width == 0) from.fail_key("expert_width", "want at least 1");
  const std::uint32_t fused = shape.shared_experts * model.expert_ffn;
  model.shared_ffn = from.number("shared_ffn", kWidthMax).value_or(fused);
  if ((model.shared_ffn == 0) != (shape.shared_experts == 0)) {
    from.fail_key("shared_experts", "and shared_ffn must both be given or both be 0");
  }
  model.router.top_k = shape.experts_per_token;
  model.router.shared_count = shape.shared_experts;
  if (model.moe_layers() == 0) from.fail_key("layers", "leave none for experts");
  shape.params_per_expert_x10 = params_x10(model);
  model.moe = shape;
}

void read_dense(TableReader& from, Model& model) {
  if (model.layout != Layout::dense) from.fail_key("family", "needs num_experts");
  model.expert_width = model.hidden;
  model.mtp_layers = 0;
}

}  // namespace

Model read_model(const toml::table& table, const Families& families, FirstError& error) {
  TableReader from(table, "[[model]]", error);
  Model model;
  model.id = from.required_text("id");
  model.repo = from.required_text("repo");
  const std::string family_name = from.required_text("family");
  const auto found = families.find(family_name);
  if (found == families.end()) {
    from.fail_key("family", "no [family." + family_name + "]");
  } else {
    model.architecture = found->second.architecture;
    model.layout = found->second.layout;
    model.ffn = found->second.ffn;
    model.router = found->second.router;
  }
  read_layers(from, model);
  model.hidden = from.number("hidden", kWidthMax).value_or(0);
  if (table.contains("num_experts")) {
    read_moe(from, model);
  } else {
    read_dense(from, model);
  }
  from.finish();
  return model;
}

}  // namespace tenzro::catalog
