#include "select.hpp"

#include <algorithm>

#include "tenzro/base/assert.hpp"

namespace tenzro::routing {

namespace {

float sum_of_two_best(std::span<const float> values) {
  if (values.size() == 1) return values[0];
  float first = std::max(values[0], values[1]);
  float second = std::min(values[0], values[1]);
  for (const float value : values.subspan(2)) {
    second = std::max(second, std::min(first, value));
    first = std::max(first, value);
  }
  return first + second;
}

}  // namespace

void select_best(std::span<const float> values, std::size_t k, std::vector<Candidate>& best) {
  TENZRO_ASSERT(k <= values.size());
  best.clear();
  if (k == 0) return;
  for (std::uint32_t id = 0; id < k; ++id) best.push_back({values[id], id});
  // A heap whose front is the worst of the best: one comparison rejects nearly every value, and an
  // equal one with a higher id is rejected too.
  std::make_heap(best.begin(), best.end(), is_better);
  for (auto id = static_cast<std::uint32_t>(k); id < values.size(); ++id) {
    if (!(values[id] > best.front().value)) continue;
    std::pop_heap(best.begin(), best.end(), is_better);
    best.back() = {values[id], id};
    std::push_heap(best.begin(), best.end(), is_better);
  }
  std::sort_heap(best.begin(), best.end(), is_better);
}

void mask_groups(std::span<float> choices, std::uint32_t n_group, std::uint32_t topk_group,
                 GroupScratch& scratch) {
  TENZRO_ASSERT(n_group > 0);
  TENZRO_ASSERT(choices.size() % n_group == 0);
  if (topk_group >= n_group) return;
  const std::size_t size = choices.size() / n_group;
  scratch.scores.resize(n_group);
  for (std::size_t g = 0; g < n_group; ++g) {
    scratch.scores[g] = sum_of_two_best(choices.subspan(g * size, size));
  }
  select_best(scratch.scores, topk_group, scratch.kept);
  scratch.is_kept.assign(n_group, 0);
  for (const Candidate& group : scratch.kept) scratch.is_kept[group.id] = 1;
  for (std::size_t g = 0; g < n_group; ++g) {
    if (scratch.is_kept[g] != 0) continue;
    const std::span<float> masked = choices.subspan(g * size, size);
    std::fill(masked.begin(), masked.end(), kMasked);
  }
}

}  // namespace tenzro::routing
