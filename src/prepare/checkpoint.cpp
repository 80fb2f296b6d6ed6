#include "checkpoint.hpp"

namespace tenzro::prepare {

Status Checkpoint::check_layer(LayerIndex layer) const {
  const std::uint32_t all = layers + mtp_layers;
  if (layer >= all) {
    return fail(ErrorCode::invalid_params, "layer",
                std::to_string(layer) + " is out of range: the checkpoint has " +
                    std::to_string(all) + " layers");
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
          .expert_width = expert_width,
          .expert_ffn = expert_ffn,
          .layers = layers};
}

}  // namespace tenzro::prepare
