#pragma once
/// \file
/// route: from router logits to slots. One function serves every router family.
///
/// Steps for one token (names are those of the gate spec, see wire/gate_blob.hpp)
///  1. Logits = the product of the router matrix, without bias. `router.bias` is added here, in
///     f32, where `bias_on` is logits; a matrix uploaded with the bias would add it twice.
///  2. Scores, rounded to f32: softmax over all experts, sigmoid, or sqrt(softplus); with
///     `topk_then_softmax` the logits themselves.
///  3. Choice = score, plus `router.bias` where `bias_on` is selection. With groups: a group scores
///     the sum of its two best choices (its one, if it has one expert), the best `topk_group`
///     groups stay, every other choice becomes -inf. The k best choices are selected; where fewer
///     than k are left, -inf ones fill up. A hash-routed layer takes its table's row instead.
///  4. Weights come from the scores, never from the biased choices. score_then_topk: divided by
///     (sum of the selected + epsilon) where `normalize`; legacy gates divide by max(sum, epsilon).
///     topk_then_softmax: softmax over the selected logits, `normalize` has no effect. Then times
///     `scale` (unless it is declared on the output), then times `router.per_expert_scale`.
///  5. Slots are sorted by weight, descending. The shared slot, if any, comes last, with weight 1
///     or sigmoid(shared gate logit); scale and normalisation never touch it.
/// Ties, in groups, choices and weights alike, go to the lower id.
///
/// Arithmetic: a score is computed in double (softmax including its sum and division) and rounded
/// to f32 once; the sum of the selected scores is accumulated in double, best first (a table's row
/// in its own order), and rounded to f32 once; everything else is single f32 operations without
/// contraction. Why: the reference classes compute in f32, so equal f32 scores must tie as they do
/// there, while float variants of exp differ between C libraries in the last bit, and double
/// rounded once does not in practice.
///
/// Errors: invalid_params for what the caller asked (top_k, token_ids), before any work; runtime
/// `moe route: token T has non-finite logits` for a NaN or infinity in a token's row (shared gate
/// included), and `moe route: token T has non-finite weights` where selected scores sum to zero or
/// a scale overflows. Never a slot out of range, never two slots of a token with one expert.
///
/// Cost: O(experts) a token plus O(log k) a replaced candidate, no allocation a token. 512 tokens
/// of 896 experts, top-16, take about 5 ms on one core with sigmoid, 6 with softmax and 24 with
/// sqrtsoftplus (log1p in double). Memory: 8 bytes a slot.
#include <cstdint>
#include <span>

#include "tenzro/base/result.hpp"
#include "tenzro/routing/routed.hpp"
#include "tenzro/routing/router.hpp"

namespace tenzro::routing {

struct RouteInput {
  /// [tokens, num_experts], row-major. Requires exactly that size.
  std::span<const float> logits;
  std::uint32_t tokens = 0;
  /// From the client, or Router::default_top_k(), or the catalog.
  std::uint32_t top_k = 0;
  /// One a token where the layer is hash-routed; ignored elsewhere.
  std::span<const std::int64_t> token_ids = {};
  /// [tokens] where Router::needs_shared_gate(); ignored elsewhere.
  std::span<const float> shared_gate_logits = {};
};

[[nodiscard]] Result<Routed> route(const Router& router, const RouteInput& input);

}  // namespace tenzro::routing
