#include "tenzro/planner/plan.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "rank.hpp"

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

/// splitmix64's finaliser.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
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
    remove_repeats(tokens);
    std::vector<Holder> holders = rank(view.candidates({model, slot.first, slot.second}), slot,
                                       static_cast<std::uint32_t>(tokens.size()), options);
    std::vector<Batch>& list = holders.empty() ? plan.unreachable : plan.batches;
    list.push_back({slot, std::move(holders), std::move(tokens)});
  }
  return plan;
}

std::uint64_t draw(std::uint64_t request, View::Slot slot) {
  return mix(mix(request) ^ (std::uint64_t{slot.first} << 32U | slot.second));
}

std::uint64_t lot(std::uint64_t draw, const ProviderAddress& provider) {
  std::uint64_t sum = draw;
  for (std::size_t i = 0; i < provider.size(); i += 8) {
    std::uint64_t word = 0;
    for (std::size_t b = 0; b < 8; ++b) word |= std::uint64_t{provider[i + b]} << (8 * b);
    sum = mix(sum ^ word);
  }
  return sum;
}

std::string unreachable_text(View::Slot slot) {
  return "expert l" + std::to_string(slot.first) + "/e" + std::to_string(slot.second) +
         " has no reachable holder";
}

}  // namespace tenzro::planner
