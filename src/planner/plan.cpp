#include "tenzro/planner/plan.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace tenzro::planner {
namespace {

/// Keeps the first of equal tokens, in order. Ascending ones, which a router's output gives, repeat
/// nothing.
void remove_repeats(std::vector<std::uint32_t>& tokens) {
  if (std::adjacent_find(tokens.begin(), tokens.end(), std::greater_equal<>()) == tokens.end())
    return;
  std::vector<std::uint32_t> kept;
  std::set<std::uint32_t> seen;
  for (const std::uint32_t token : tokens) {
    if (seen.insert(token).second) kept.push_back(token);
  }
  tokens = std::move(kept);
}

/// Eligible holders, best first.
std::vector<ProviderAddress> choose(const std::vector<shards::Candidate>& candidates,
                                    const Options& options) {
  std::vector<ProviderAddress> chosen;
  const auto is_self = [&](const shards::Candidate& c) {
    return options.self == c.provider->address;
  };
  const bool has_warm = std::any_of(candidates.begin(), candidates.end(),
                                    [](const shards::Candidate& c) { return c.holding->is_warm; });
  for (const shards::Candidate& candidate : candidates) {
    const bool cold_allowed = options.allow_cold.value_or(!has_warm);
    if (is_self(candidate)) {
      chosen.insert(chosen.begin(), candidate.provider->address);
    } else if (candidate.holding->is_warm || cold_allowed) {
      chosen.push_back(candidate.provider->address);
    }
  }
  return chosen;
}

}  // namespace

Plan make_plan(const ModelId& model, const std::vector<TokenExperts>& routing, const View& view,
               const Options& options) {
  std::map<View::Slot, std::vector<std::uint32_t>> wanted;  // ordered: the order of batches
  for (const TokenExperts& token : routing) {
    for (const View::Slot& slot : token.experts) {
      wanted[slot].push_back(token.token_index);
    }
  }
  Plan plan;
  for (auto& [slot, tokens] : wanted) {
    std::vector<ProviderAddress> holders =
        choose(view.candidates({model, slot.first, slot.second}), options);
    remove_repeats(tokens);
    Batch batch{.slot = slot, .tokens = std::move(tokens)};
    if (holders.empty()) {
      plan.unreachable.push_back(std::move(batch));
      continue;
    }
    batch.provider = holders.front();
    batch.standbys.assign(holders.begin() + 1, holders.end());
    plan.batches.push_back(std::move(batch));
  }
  return plan;
}

std::string unreachable_text(View::Slot slot) {
  return "expert l" + std::to_string(slot.first) + "/e" + std::to_string(slot.second) +
         " has no reachable holder";
}

}  // namespace tenzro::planner
