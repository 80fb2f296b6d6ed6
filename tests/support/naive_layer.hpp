#pragma once
/// \file
/// A MoE layer the slow and obvious way: one row at a time, in double, straight from the formulas;
/// the experts are support/reference_ffn.hpp's. What outputs of the real path are held to.
#include <cstdint>
#include <span>
#include <vector>

#include "tenzro/compute/weights.hpp"
#include "tenzro/routing/routed.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::testing {

struct NaiveLayer {
  const wire::GateBlob& gate;
  /// Routed experts by index, then the shared one where there is one.
  std::span<const compute::ExpertView> experts;
};

/// Router logits of rows [tokens, d_model], without bias, rounded to f32. Applies the input norm.
[[nodiscard]] std::vector<float> naive_logits(const wire::GateBlob& gate,
                                              std::span<const float> rows);
/// Logits of the shared gate, one a row; empty where there is none.
[[nodiscard]] std::vector<float> naive_shared_gate_logits(const wire::GateBlob& gate,
                                                          std::span<const float> rows);
/// The layer's output [tokens, d_model] for slots already chosen.
[[nodiscard]] std::vector<float> naive_output(const NaiveLayer& layer, std::span<const float> rows,
                                              const routing::Routed& routed);

}  // namespace tenzro::testing
