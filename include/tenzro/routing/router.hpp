#pragma once
/// \file
/// Router: what one MoE layer's gate keeps in memory besides its matrices.
///
/// Built once at load from a parsed gate blob; it copies the spec and the vectors and none of the
/// matrices (router, shared gate, latent projections), which a backend holds and the blob may then
/// be dropped. Immutable afterwards, so any thread may route with it.
///
/// What the three stages of a layer ask of it, in order
///  1. input: `transforms_input()` says whether rows pass through `normalize_router_input` before
///     the router matrix (Gemma); only the router sees the result, the experts never do.
///  2. slots: `route` (route.hpp) turns router logits into experts and weights (routed.hpp).
///  3. combine: the routed sum passes through `apply_latent_norm` and the up projection where
///     `has_latent()`, then is multiplied by `output_scale()`; the shared slot is added afterwards
///     at its own weight, at full width, untouched by both.
/// Precondition: a gate as `wire::parse_gate_blob` returns it (sizes consistent, table checked); a
/// gate that breaks this is a bug of the caller.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenzro/routing/routed.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::routing {

class Router {
 public:
  explicit Router(const wire::GateBlob& gate);

  [[nodiscard]] std::uint32_t num_experts() const { return num_experts_; }

  [[nodiscard]] std::uint32_t d_model() const { return d_model_; }

  [[nodiscard]] const wire::RouterSpec& spec() const { return spec_; }

  /// Whether every token gets one more slot, of index num_experts(), after its routed ones.
  [[nodiscard]] bool has_shared_slot() const { return spec_.shared_count != 0; }

  /// The width of the hash table where there is one, else the spec's own; nothing = the caller
  /// must know (catalog, or an error).
  [[nodiscard]] std::optional<std::uint32_t> default_top_k() const;

  /// Whether experts are read from a table by token id; `route` then needs token ids.
  [[nodiscard]] bool is_hash_routed() const { return table_top_k_ != 0; }

  /// Rows of the hash table; 0 where there is none.
  [[nodiscard]] std::uint32_t vocabulary() const { return vocabulary_; }

  /// The experts of one token. Requires token < vocabulary().
  [[nodiscard]] std::span<const std::uint32_t> table_row(std::uint32_t token) const;

  /// Whether `route` needs the logit of the shared gate, one a token.
  [[nodiscard]] bool needs_shared_gate() const {
    return has_shared_slot() && spec_.shared_gate == wire::SharedGate::sigmoid;
  }

  [[nodiscard]] bool transforms_input() const {
    return spec_.input_norm != wire::InputNorm::none || !input_scale_.empty();
  }

  [[nodiscard]] bool has_latent() const { return !latent_norm_.empty(); }

  /// Factor of the routed sum: the spec's scale where it is declared on the output, else 1.
  [[nodiscard]] float output_scale() const;

  /// [num_experts] or empty.
  [[nodiscard]] std::span<const float> bias() const { return bias_; }

  /// [num_experts] or empty.
  [[nodiscard]] std::span<const float> per_expert_scale() const { return per_expert_scale_; }

  /// [d_model] or empty.
  [[nodiscard]] std::span<const float> input_scale() const { return input_scale_; }

  /// [latent] or empty.
  [[nodiscard]] std::span<const float> latent_norm() const { return latent_norm_; }

  /// Memory held: this object and its vectors.
  [[nodiscard]] std::size_t bytes() const;

 private:
  wire::RouterSpec spec_;
  std::uint32_t num_experts_ = 0;
  std::uint32_t d_model_ = 0;
  std::uint32_t table_top_k_ = 0;
  std::uint32_t vocabulary_ = 0;
  std::vector<float> bias_;
  std::vector<float> per_expert_scale_;
  std::vector<float> input_scale_;
  std::vector<float> latent_norm_;
  std::vector<std::uint32_t> table_;
};

}  // namespace tenzro::routing
