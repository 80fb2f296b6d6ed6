#pragma once
/// \file
/// A layer small enough to reason about: experts whose output is a known multiple of their input.
#include <cstdint>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::testing {

inline constexpr std::uint32_t kSmallWidth = 4;

/// relu2 expert with up = 1 (identity) and down = `factor` · identity: y = factor · max(x, 0)².
[[nodiscard]] inline BufferRef small_expert(float factor) {
  std::vector<float> up(kSmallWidth * kSmallWidth, 0.0F);
  std::vector<float> down(kSmallWidth * kSmallWidth, 0.0F);
  for (std::uint32_t i = 0; i < kSmallWidth; ++i) {
    up[i * kSmallWidth + i] = 1.0F;
    down[i * kSmallWidth + i] = factor;
  }
  compute::ExpertView view{.spec = {.activation = compute::Activation::relu2}};
  view.up = {tensor::WeightType::f32, kSmallWidth, kSmallWidth, std::as_bytes(std::span(up))};
  view.down = {tensor::WeightType::f32, kSmallWidth, kSmallWidth, std::as_bytes(std::span(down))};
  return BufferRef::copy_of(wire::make_expert_blob(view));
}

/// `experts` experts, router row e reads input component e: logit of expert e is x[e]. Softmax over
/// the selected.
[[nodiscard]] inline BufferRef small_gate(std::uint32_t experts, std::uint32_t top_k) {
  std::vector<float> weight(experts * kSmallWidth, 0.0F);
  for (std::uint32_t e = 0; e < experts; ++e) weight[e * kSmallWidth + e] = 1.0F;
  wire::GateBlob gate;
  gate.num_experts = experts;
  gate.d_model = kSmallWidth;
  gate.spec.declared = true;
  gate.spec.top_k = top_k;
  gate.router = {tensor::WeightType::f32, experts, kSmallWidth, std::as_bytes(std::span(weight))};
  return BufferRef::copy_of(wire::make_gate_blob(gate));
}

}  // namespace tenzro::testing
