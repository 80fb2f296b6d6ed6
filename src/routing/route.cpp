#include "tenzro/routing/route.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "tenzro/base/assert.hpp"

#include "scores.hpp"
#include "select.hpp"

namespace tenzro::routing {

namespace {

/// Buffers that every token of a call reuses.
struct Scratch {
  std::vector<float> scores;
  std::vector<float> choices;
  std::vector<double> exps;
  std::vector<float> weights;
  GroupScratch groups;
  /// Selection order; `value` becomes the weight.
  std::vector<Candidate> selected;
};

std::string text(std::uint64_t number) {
  return std::to_string(number);
}

tl::unexpected<Error> fail_token(std::uint32_t token, std::string_view what) {
  return fail(ErrorCode::runtime, "moe route",
              "token " + text(token) + " has non-finite " + std::string(what));
}

Status check_token_ids(const Router& router, const RouteInput& input) {
  const auto refuse = [](std::string detail) {
    return fail(ErrorCode::invalid_params, "token_ids", std::move(detail));
  };
  if (input.token_ids.empty() && input.tokens != 0) {
    return refuse("required, because this layer routes by token id");
  }
  if (input.token_ids.size() != input.tokens) {
    return refuse("has " + text(input.token_ids.size()) + " entries, expected one for each of " +
                  text(input.tokens) + " tokens");
  }
  for (const std::int64_t id : input.token_ids) {
    if (id >= 0 && id < std::int64_t{router.vocabulary()}) continue;
    return refuse("id " + std::to_string(id) + " is outside the vocabulary of " +
                  text(router.vocabulary()));
  }
  return {};
}

Status check_request(const Router& router, const RouteInput& input) {
  if (input.top_k == 0) return fail(ErrorCode::invalid_params, "", "top_k must be >= 1");
  if (!router.is_hash_routed()) return {};
  if (input.top_k != *router.default_top_k()) {
    return fail(ErrorCode::invalid_params, "top_k",
                "this layer routes by token id to " + text(*router.default_top_k()) +
                    " experts, got " + text(input.top_k));
  }
  return check_token_ids(router, input);
}

/// Steps 1 and 2: the token's scores into `scratch.scores`. False where a logit is not finite.
bool load_scores(const Router& router, std::span<const float> logits, Scratch& scratch) {
  scratch.scores.assign(logits.begin(), logits.end());
  const wire::RouterSpec& spec = router.spec();
  if (spec.bias_on == wire::BiasOn::logits) {
    for (std::size_t i = 0; i < router.bias().size(); ++i) scratch.scores[i] += router.bias()[i];
  }
  const auto is_finite = [](float x) { return std::isfinite(x); };
  if (!std::all_of(scratch.scores.begin(), scratch.scores.end(), is_finite)) return false;
  if (spec.order == wire::SelectionOrder::score_then_topk) {
    score(spec.scoring, scratch.scores, scratch.exps);
  }
  return true;
}

/// Step 3, by choice.
void select_by_choice(const Router& router, std::uint32_t top_k, Scratch& scratch) {
  const wire::RouterSpec& spec = router.spec();
  scratch.choices = scratch.scores;
  if (spec.bias_on == wire::BiasOn::selection) {
    for (std::size_t i = 0; i < router.bias().size(); ++i) scratch.choices[i] += router.bias()[i];
  }
  mask_groups(scratch.choices, spec.n_group, spec.topk_group, scratch.groups);
  select_best(scratch.choices, top_k, scratch.selected);
}

/// Step 3, by table.
void select_by_table(std::span<const std::uint32_t> row, Scratch& scratch) {
  scratch.selected.clear();
  for (const std::uint32_t id : row) scratch.selected.push_back({0, id});
}

void normalize_weights(const wire::RouterSpec& spec, std::span<float> weights) {
  double exact = 0;
  for (const float weight : weights) exact += static_cast<double>(weight);
  const auto sum = static_cast<float>(exact);
  const auto epsilon = static_cast<float>(spec.epsilon);
  const float divisor = spec.epsilon_is_floor ? std::max(sum, epsilon) : sum + epsilon;
  for (float& weight : weights) weight /= divisor;
}

/// Step 4: replaces the `value` of the selected by weights and sorts them. False where a weight is
/// not finite.
bool weigh(const Router& router, Scratch& scratch) {
  const wire::RouterSpec& spec = router.spec();
  scratch.weights.clear();
  for (const Candidate& one : scratch.selected) scratch.weights.push_back(scratch.scores[one.id]);
  if (spec.order == wire::SelectionOrder::topk_then_softmax) {
    softmax(scratch.weights, scratch.exps);
  } else if (spec.normalize) {
    normalize_weights(spec, scratch.weights);
  }
  const bool is_scaled = spec.scale_on == wire::ScaleOn::weights;
  const float scale = is_scaled ? static_cast<float>(spec.scale) : 1.0F;
  for (std::size_t i = 0; i < scratch.selected.size(); ++i) {
    Candidate& one = scratch.selected[i];
    one.value = scratch.weights[i] * scale;
    if (!router.per_expert_scale().empty()) one.value *= router.per_expert_scale()[one.id];
    if (!std::isfinite(one.value)) return false;
  }
  std::sort(scratch.selected.begin(), scratch.selected.end(), is_better);
  return true;
}

/// One token's slots, without the shared one, into `scratch.selected`.
Status route_token(const Router& router, const RouteInput& input, std::uint32_t token,
                   std::uint32_t top_k, Scratch& scratch) {
  const std::size_t experts = router.num_experts();
  if (!load_scores(router, input.logits.subspan(token * experts, experts), scratch)) {
    return fail_token(token, "logits");
  }
  if (router.is_hash_routed()) {
    const auto id = static_cast<std::uint32_t>(input.token_ids[token]);
    select_by_table(router.table_row(id), scratch);
  } else {
    select_by_choice(router, top_k, scratch);
  }
  if (!weigh(router, scratch)) return fail_token(token, "weights");
  return {};
}

/// Step 5, the shared slot.
Result<Slot> shared_slot(const Router& router, const RouteInput& input, std::uint32_t token) {
  Slot slot{.expert = router.num_experts(), .weight = 1.0F};
  if (router.needs_shared_gate()) {
    const float logit = input.shared_gate_logits[token];
    if (!std::isfinite(logit)) return fail_token(token, "logits");
    slot.weight = sigmoid(logit);
  }
  return slot;
}

}  // namespace

Result<Routed> route(const Router& router, const RouteInput& input) {
  const Status request = check_request(router, input);
  if (!request) return fail(request.error());
  TENZRO_ASSERT(input.logits.size() == std::size_t{input.tokens} * router.num_experts());
  TENZRO_ASSERT(!router.needs_shared_gate() || input.shared_gate_logits.size() == input.tokens);

  Routed routed;
  routed.tokens = input.tokens;
  routed.top_k = std::min(input.top_k, router.num_experts());
  routed.slots_per_token = routed.top_k + (router.has_shared_slot() ? 1U : 0U);
  // Bounded by the logits, which the caller already holds: slots_per_token <= num_experts + 1.
  routed.slots.reserve(std::size_t{routed.tokens} * routed.slots_per_token);

  Scratch scratch;
  for (std::uint32_t token = 0; token < input.tokens; ++token) {
    const Status done = route_token(router, input, token, routed.top_k, scratch);
    if (!done) return fail(done.error());
    for (const Candidate& one : scratch.selected) routed.slots.push_back({one.id, one.value});
    if (!router.has_shared_slot()) continue;
    Result<Slot> shared = shared_slot(router, input, token);
    if (!shared) return fail(std::move(shared.error()));
    routed.slots.push_back(*shared);
  }
  return routed;
}

}  // namespace tenzro::routing
