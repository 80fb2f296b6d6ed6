#include "tenzro/catalog/model.hpp"

namespace tenzro::catalog {

Status check(const Model& model, const ObservedShape& observed) {
  struct Quantity {
    std::string_view name;
    std::optional<std::uint32_t> seen;
    std::uint32_t known = 0;
    /// Whether the catalog states it: a dense model may leave its widths out.
    bool is_stated = true;
  };

  const MoeShape moe = model.moe.value_or(MoeShape{});
  const bool is_moe = model.is_moe();
  const Quantity quantities[] = {
      {"num_experts", observed.num_experts, moe.num_experts},
      {"experts_per_token", observed.experts_per_token, moe.experts_per_token},
      {"shared_experts", observed.shared_experts, moe.shared_experts},
      {"hidden", observed.hidden, model.hidden, model.hidden != 0},
      {"expert_width", observed.expert_width, model.expert_width, is_moe},
      {"expert_ffn", observed.expert_ffn, model.expert_ffn, is_moe},
      {"layers", observed.layers, model.layers, model.layers != 0},
  };
  for (const Quantity& one : quantities) {
    if (!one.seen || !one.is_stated || *one.seen == one.known) continue;
    return fail(ErrorCode::runtime, model.id,
                "the checkpoint's " + std::string(one.name) + " is " + std::to_string(*one.seen) +
                    ", the catalog's is " + std::to_string(one.known));
  }
  return {};
}

}  // namespace tenzro::catalog
