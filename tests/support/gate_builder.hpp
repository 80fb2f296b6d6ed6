#pragma once
/// \file
/// Gates without weights, for tests that start at logits.
#include <cstdint>
#include <utility>
#include <vector>

#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::testing {

/// Softmax over all, normalised, no bias, no shared slot.
[[nodiscard]] inline wire::GateBlob plain_gate(std::uint32_t num_experts,
                                               std::uint32_t d_model = 8) {
  wire::GateBlob gate;
  gate.num_experts = num_experts;
  gate.d_model = d_model;
  gate.spec.declared = true;
  return gate;
}

/// What a blob without a spec and without a bias means.
[[nodiscard]] inline wire::GateBlob legacy_softmax_gate(std::uint32_t num_experts) {
  wire::GateBlob gate = plain_gate(num_experts);
  gate.spec.declared = false;
  gate.spec.order = wire::SelectionOrder::topk_then_softmax;
  return gate;
}

/// What a blob without a spec and with a bias means.
[[nodiscard]] inline wire::GateBlob legacy_sigmoid_gate(std::vector<float> bias, double scale) {
  wire::GateBlob gate = plain_gate(static_cast<std::uint32_t>(bias.size()));
  gate.spec.declared = false;
  gate.spec.scoring = wire::Scoring::sigmoid;
  gate.spec.epsilon = 1.1920928955078125e-7;
  gate.spec.epsilon_is_floor = true;
  gate.spec.scale = scale;
  gate.bias = std::move(bias);
  return gate;
}

}  // namespace tenzro::testing
