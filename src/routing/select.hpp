#pragma once
/// \file
/// Selection of the best few of many, ties to the lower id.
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tenzro::routing {

/// The choice of an expert whose group was not kept. It loses to every real choice, and yet can be
/// selected where nothing else is left. Zero would win over negative choices.
inline constexpr float kMasked = -std::numeric_limits<float>::infinity();

struct Candidate {
  float value = 0;
  std::uint32_t id = 0;
};

/// The order of selection, and of slots.
[[nodiscard]] inline bool is_better(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

/// The `k` best of `values` into `best`, best first; ids are indices. Requires k <= values.size()
/// and no NaN. Allocates nothing once `best` has room for k.
void select_best(std::span<const float> values, std::size_t k, std::vector<Candidate>& best);

/// Scratch of mask_groups.
struct GroupScratch {
  std::vector<float> scores;
  std::vector<Candidate> kept;
  std::vector<std::uint8_t> is_kept;
};

/// Splits `choices` into `n_group` equal runs and masks all but the best `topk_group`. A run scores
/// the f32 sum of its two best members. Requires n_group to divide choices.size().
void mask_groups(std::span<float> choices, std::uint32_t n_group, std::uint32_t topk_group,
                 GroupScratch& scratch);

}  // namespace tenzro::routing
