#include "checkpoint.hpp"

namespace tenzro::prepare {

std::string Checkpoint::layer_prefix(LayerIndex layer) const {
  return "model.layers." + std::to_string(layer) + ".mlp.";
}

std::string Checkpoint::router_name(LayerIndex layer) const {
  return layer_prefix(layer) + "gate.weight";
}

std::string Checkpoint::bias_name(LayerIndex layer) const {
  return layer_prefix(layer) + "gate.e_score_correction_bias";
}

std::string Checkpoint::expert_name(LayerIndex layer, ExpertIndex expert,
                                    Projection projection) const {
  constexpr std::string_view kNames[] = {"gate_proj", "up_proj", "down_proj"};
  const std::string block = expert < num_experts ? "experts." + std::to_string(expert) + "."
                                                 : std::string("shared_experts.");
  return layer_prefix(layer) + block + std::string(kNames[static_cast<std::size_t>(projection)]) +
         ".weight";
}

Status Checkpoint::check_layer(LayerIndex layer) const {
  if (layer >= layers + mtp_layers) {
    return fail(ErrorCode::invalid_params, "layer",
                std::to_string(layer) + " is out of range: the checkpoint has " +
                    std::to_string(layers + mtp_layers) + " layers");
  }
  if (layer < dense_first || dense_layers.contains(layer)) {
    return fail(ErrorCode::invalid_params, "layer",
                std::to_string(layer) + " is a dense layer of this checkpoint");
  }
  return {};
}

catalog::ObservedShape Checkpoint::observed() const {
  return {.num_experts = num_experts,
          .experts_per_token = router.top_k,
          .shared_experts = shared_experts,
          .hidden = hidden,
          .expert_width = hidden,
          .expert_ffn = expert_ffn,
          .layers = layers};
}

}  // namespace tenzro::prepare
