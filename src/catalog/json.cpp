#include <nlohmann/json.hpp>

#include "tenzro/catalog/model.hpp"

namespace tenzro::catalog {

namespace {

using Json = nlohmann::ordered_json;

Json moe_json(const MoeShape& shape) {
  Json out;
  out["num_experts"] = shape.num_experts;
  out["experts_per_token"] = shape.experts_per_token;
  out["shared_experts"] = shape.shared_experts;
  out["params_per_expert_x10"] = nullptr;
  if (shape.params_per_expert_x10) out["params_per_expert_x10"] = *shape.params_per_expert_x10;
  return out;
}

Json number_or_null(std::uint32_t value) {
  return value == 0 ? Json(nullptr) : Json(value);
}

}  // namespace

std::string to_json(const Model& model) {
  Json out;
  out["model_id"] = model.id;
  out["is_moe"] = model.is_moe();
  out["moe"] = model.moe ? moe_json(*model.moe) : Json(nullptr);
  out["architecture"] = model.architecture;
  out["repo"] = model.repo;
  out["layout"] = name_of(model.layout);
  out["layers"] = number_or_null(model.layers);
  out["hidden"] = number_or_null(model.hidden);
  if (model.is_moe()) {
    out["moe_layers"] = model.moe_layers();
    out["dense_first"] = model.dense_first;
    out["hash_layers"] = model.hash_layers;
    out["mtp_layers"] = model.mtp_layers;
    out["expert_width"] = model.expert_width;
    out["expert_ffn"] = model.expert_ffn;
    out["shared_ffn"] = number_or_null(model.shared_ffn);
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tenzro::catalog
