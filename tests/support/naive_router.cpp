#include "support/naive_router.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace tenzro::testing {

namespace {

using Floats = std::vector<float>;
using Ids = std::vector<std::uint32_t>;

/// Ids of `values`, best first. A stable sort keeps the lower id first among equals.
Ids ranked(const Floats& values) {
  Ids ids(values.size());
  std::iota(ids.begin(), ids.end(), 0U);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
  return ids;
}

Floats softmaxed(const Floats& logits) {
  double top = -std::numeric_limits<double>::infinity();
  for (const float x : logits) top = std::max(top, static_cast<double>(x));
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - top);
  Floats out;
  for (const float x : logits) {
    out.push_back(static_cast<float>(std::exp(static_cast<double>(x) - top) / sum));
  }
  return out;
}

Floats scored(wire::Scoring scoring, const Floats& logits) {
  if (scoring == wire::Scoring::softmax) return softmaxed(logits);
  Floats out;
  for (const float logit : logits) {
    const auto x = static_cast<double>(logit);
    const double softplus = x > 20 ? x : std::log1p(std::exp(x));
    const bool is_sigmoid = scoring == wire::Scoring::sigmoid;
    out.push_back(static_cast<float>(is_sigmoid ? 1 / (1 + std::exp(-x)) : std::sqrt(softplus)));
  }
  return out;
}

Floats masked(const wire::RouterSpec& spec, Floats choices) {
  const std::size_t size = choices.size() / spec.n_group;
  Floats group_scores;
  for (std::size_t g = 0; g < spec.n_group; ++g) {
    Floats members(choices.begin() + static_cast<std::ptrdiff_t>(g * size),
                   choices.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(members.rbegin(), members.rend());
    group_scores.push_back(size == 1 ? members[0] : members[0] + members[1]);
  }
  Ids groups = ranked(group_scores);
  groups.resize(spec.topk_group);
  for (std::size_t e = 0; e < choices.size(); ++e) {
    const auto group = static_cast<std::uint32_t>(e / size);
    const bool is_kept = std::find(groups.begin(), groups.end(), group) != groups.end();
    if (!is_kept) choices[e] = -std::numeric_limits<float>::infinity();
  }
  return choices;
}

Ids selected(const wire::GateBlob& gate, const Floats& scores, std::uint32_t top_k,
             std::optional<std::int64_t> token_id) {
  if (gate.is_hash_routed()) {
    const auto first = static_cast<std::ptrdiff_t>(*token_id * gate.tid2eid_top_k);
    return {gate.tid2eid.begin() + first, gate.tid2eid.begin() + first + gate.tid2eid_top_k};
  }
  Floats choices = scores;
  if (gate.spec.bias_on == wire::BiasOn::selection) {
    for (std::size_t i = 0; i < gate.bias.size(); ++i) choices[i] += gate.bias[i];
  }
  Ids ids = ranked(masked(gate.spec, std::move(choices)));
  ids.resize(std::min<std::size_t>(top_k, ids.size()));
  return ids;
}

Floats weights_of(const wire::RouterSpec& spec, const Floats& selected_scores) {
  if (spec.order == wire::SelectionOrder::topk_then_softmax) return softmaxed(selected_scores);
  if (!spec.normalize) return selected_scores;
  double exact = 0;
  for (const float score : selected_scores) exact += static_cast<double>(score);
  const auto sum = static_cast<float>(exact);
  const auto epsilon = static_cast<float>(spec.epsilon);
  Floats out;
  for (const float score : selected_scores) {
    out.push_back(score / (spec.epsilon_is_floor ? std::max(sum, epsilon) : sum + epsilon));
  }
  return out;
}

}  // namespace

std::vector<routing::Slot> naive_route(const wire::GateBlob& gate, std::span<const float> logits,
                                       std::uint32_t top_k, std::optional<std::int64_t> token_id,
                                       std::optional<float> shared_gate_logit) {
  const wire::RouterSpec& spec = gate.spec;
  Floats biased(logits.begin(), logits.end());
  if (spec.bias_on == wire::BiasOn::logits) {
    for (std::size_t i = 0; i < gate.bias.size(); ++i) biased[i] += gate.bias[i];
  }
  const bool is_scored = spec.order == wire::SelectionOrder::score_then_topk;
  const Floats scores = is_scored ? scored(spec.scoring, biased) : biased;
  const Ids ids = selected(gate, scores, top_k, token_id);
  Floats of_selected;
  for (const std::uint32_t id : ids) of_selected.push_back(scores[id]);
  const Floats weights = weights_of(spec, of_selected);

  std::map<std::uint32_t, float> by_id;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    float weight = weights[i];
    if (spec.scale_on == wire::ScaleOn::weights) weight *= static_cast<float>(spec.scale);
    if (!gate.per_expert_scale.empty()) weight *= gate.per_expert_scale[ids[i]];
    by_id[ids[i]] = weight;
  }
  std::vector<routing::Slot> slots;
  for (const auto& [id, weight] : by_id) slots.push_back({id, weight});
  std::stable_sort(slots.begin(), slots.end(),
                   [](const auto& a, const auto& b) { return a.weight > b.weight; });
  if (spec.shared_count == 0) return slots;
  const bool is_gated = spec.shared_gate == wire::SharedGate::sigmoid;
  const double shared =
      is_gated ? 1 / (1 + std::exp(-static_cast<double>(*shared_gate_logit))) : 1.0;
  slots.push_back({gate.num_experts, static_cast<float>(shared)});
  return slots;
}

}  // namespace tenzro::testing
