#include <cstring>

#include "tenzro/base/assert.hpp"
#include "tenzro/wire/gate_blob.hpp"

#include "router_spec.hpp"
#include "spec_text.hpp"
#include "tensor_writer.hpp"

namespace tenzro::wire {
namespace {

void check(const GateBlob& gate) {
  const auto fits = [](const std::vector<float>& values, std::uint32_t size) {
    return values.empty() || values.size() == size;
  };
  TENZRO_ASSERT(gate.router.rows == gate.num_experts);
  TENZRO_ASSERT(gate.router.cols == gate.d_model);
  TENZRO_ASSERT(fits(gate.bias, gate.num_experts));
  TENZRO_ASSERT(fits(gate.per_expert_scale, gate.num_experts));
  TENZRO_ASSERT(fits(gate.input_scale, gate.d_model));
  TENZRO_ASSERT(gate.latent_down.has_value() == gate.latent_up.has_value());
  TENZRO_ASSERT(gate.latent_down.has_value() == !gate.latent_norm.empty());
  TENZRO_ASSERT(gate.spec.shared_gate == SharedGate::none || gate.shared_gate);
  TENZRO_ASSERT(gate.is_hash_routed() == !gate.tid2eid.empty());
  TENZRO_ASSERT(!gate.is_hash_routed() || gate.tid2eid.size() % gate.tid2eid_top_k == 0);
}

/// Whether a holder that knows only the legacy rule would choose the same slots, with weights that
/// differ by rounding at most.
bool is_legacy(const GateBlob& gate) {
  const RouterSpec& spec = gate.spec;
  const bool has_more = !gate.per_expert_scale.empty() || !gate.input_scale.empty() ||
                        gate.is_hash_routed() || gate.latent_down.has_value() ||
                        spec.input_norm != InputNorm::none || spec.topk_group != spec.n_group ||
                        (spec.shared_count != 0 && spec.shared_gate != SharedGate::none);
  if (has_more) return false;
  // A softmax over the selected equals the normalised part of the softmax over all.
  if (spec.scoring == Scoring::softmax) {
    const bool is_over_selected =
        spec.order == SelectionOrder::topk_then_softmax || (spec.normalize && spec.epsilon == 0);
    return gate.bias.empty() && is_over_selected && spec.scale == 1;
  }
  constexpr double kEpsilonMax = 1e-12;  // above, it would show in a weight
  return spec.scoring == Scoring::sigmoid && !gate.bias.empty() &&
         spec.bias_on == BiasOn::selection && spec.normalize && spec.scale_on == ScaleOn::weights &&
         (spec.epsilon_is_floor || spec.epsilon <= kEpsilonMax);
}

/// The specification as `tenzro.router` can say it. No key sets a floor; adding 1e-20 instead gives
/// the same weights unless every selected score is below the floor.
RouterSpec declared(RouterSpec spec) {
  if (spec.epsilon_is_floor) spec.epsilon = 1e-20;
  return spec;
}

}  // namespace

std::vector<std::byte> make_gate_blob(const GateBlob& gate) {
  check(gate);
  TensorWriter writer;
  writer.matrix("router.weight", gate.router);
  writer.vector("router.bias", gate.bias);
  writer.vector("router.per_expert_scale", gate.per_expert_scale);
  writer.vector("router.input_scale", gate.input_scale);
  const std::vector<std::int64_t> table(gate.tid2eid.begin(), gate.tid2eid.end());
  if (gate.is_hash_routed()) {
    writer.tensor({.name = "router.tid2eid",
                   .dtype = tensor::DType::i64,
                   .shape = {table.size() / gate.tid2eid_top_k, gate.tid2eid_top_k},
                   .data = std::as_bytes(std::span(table))});
  }
  if (gate.shared_gate) writer.matrix("shared_gate.weight", *gate.shared_gate);
  if (gate.latent_down) writer.matrix("latent_down.weight", *gate.latent_down);
  writer.vector("latent_norm.weight", gate.latent_norm);
  if (gate.latent_up) writer.matrix("latent_up.weight", *gate.latent_up);
  writer.metadata(kRouterKey, router_spec_text(declared(gate.spec)));
  if (is_legacy(gate)) {
    writer.metadata(kLegacyScaleKey, number_text(gate.spec.scale));
    writer.metadata(kLegacySharedKey, std::to_string(gate.spec.shared_count));
  }
  return writer.file();
}

}  // namespace tenzro::wire
