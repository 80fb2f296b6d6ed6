#pragma once
/// \file
/// Gate blobs: a layer's router and everything that decides slots and weights, as a safetensors
/// file.
///
/// Tensors: `router.weight` [num_experts, d_model] required; `router.bias` [num_experts];
/// `router.per_expert_scale` [num_experts]; `router.tid2eid` I64 [vocab, top_k];
/// `router.input_scale` [d_model]; `shared_gate.weight` [1, d_model]; `latent_down.weight` [latent,
/// d_model], `latent_norm.weight` [latent], `latent_up.weight` [d_model, latent] (all three or
/// none). Float dtypes F32, F16, BF16 only. Metadata `tenzro.router`: a string holding a JSON
/// object, see RouterSpec for keys and defaults. Without it the legacy rule: `router.bias` present
/// = sigmoid scoring with selection bias, weights normalised with the sum floored at the f32
/// epsilon, times `routed_scaling_factor` (metadata, decimal, default 1; unparsable is 1); absent =
/// top-k by logit, softmax over the selected, no scale. `shared_experts` (decimal, default 0)
/// non-zero = one shared slot of weight 1 in either case. When `tenzro.router` is present the two
/// legacy keys are ignored. Refused by name: unknown keys or values, n_group not dividing
/// num_experts, topk_group > n_group, topk_then_softmax with another scoring, a tid2eid row with
/// ids out of range or repeated, non-finite weights, a length mismatch. Code: runtime; texts as
/// expert_blob.hpp.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/compute/weights.hpp"

namespace tenzro::wire {

enum class Scoring : std::uint8_t { softmax, sigmoid, sqrtsoftplus };
enum class SelectionOrder : std::uint8_t { score_then_topk, topk_then_softmax };
enum class ScaleOn : std::uint8_t { weights, output };
enum class BiasOn : std::uint8_t { selection, logits };
enum class SharedGate : std::uint8_t { none, sigmoid };
enum class InputNorm : std::uint8_t { none, rms };

struct RouterSpec {
  Scoring scoring = Scoring::softmax;                      ///< "scoring"
  SelectionOrder order = SelectionOrder::score_then_topk;  ///< "order"
  bool normalize = true;                                   ///< "normalize"
  /// "epsilon": added to the sum before dividing. Default 0 for softmax, else 1e-20.
  double epsilon = 0;
  /// Legacy blobs floor the sum instead of adding; no key sets this.
  bool epsilon_is_floor = false;
  double scale = 1;                     ///< "scale"
  ScaleOn scale_on = ScaleOn::weights;  ///< "scale_on"
  std::uint32_t n_group = 1;            ///< "n_group"
  std::uint32_t topk_group = 1;         ///< "topk_group", default n_group
  std::optional<std::uint32_t> top_k;   ///< "top_k"
  std::uint32_t shared_count = 0;       ///< "shared": {"count", "gate": none|sigmoid}
  SharedGate shared_gate = SharedGate::none;
  BiasOn bias_on = BiasOn::selection;      ///< "bias_on"
  InputNorm input_norm = InputNorm::none;  ///< "input_norm": none|rms
  double input_norm_eps = 1e-6;            ///< "input_norm_eps"
  double latent_norm_eps = 1e-5;           ///< "latent_norm_eps"
  /// True where `tenzro.router` was present.
  bool declared = false;
};

/// A parsed gate blob. Matrices point into the blob's bytes; vectors are widened copies.
struct GateBlob {
  RouterSpec spec;
  std::uint32_t num_experts = 0;
  std::uint32_t d_model = 0;
  compute::MatrixView router;
  std::vector<float> bias;              ///< [num_experts] or empty
  std::vector<float> per_expert_scale;  ///< [num_experts] or empty
  std::vector<float> input_scale;       ///< [d_model] or empty
  /// [vocab, tid2eid_top_k] expert ids, empty where the layer is not hash-routed.
  std::vector<std::uint32_t> tid2eid;
  std::uint32_t tid2eid_top_k = 0;
  std::optional<compute::MatrixView> shared_gate;  ///< [1, d_model]
  std::optional<compute::MatrixView> latent_down;  ///< [latent, d_model]
  std::vector<float> latent_norm;                  ///< [latent] or empty
  std::optional<compute::MatrixView> latent_up;    ///< [d_model, latent]

  /// Width that the experts of this layer see: latent, or d_model.
  [[nodiscard]] std::uint32_t expert_width() const {
    return latent_down ? latent_down->rows : d_model;
  }

  [[nodiscard]] bool is_hash_routed() const { return tid2eid_top_k != 0; }
};

[[nodiscard]] Result<GateBlob> parse_gate_blob(std::span<const std::byte> blob);

/// Inverse of parse_gate_blob: always writes `tenzro.router`, and the two legacy keys where the
/// legacy rule can express the gate, so that an older holder reads it too. Deterministic bytes.
[[nodiscard]] std::vector<std::byte> make_gate_blob(const GateBlob& gate);

}  // namespace tenzro::wire
