#pragma once
/// \file
/// The holders of one expert in the order of the planner's rules.
#include <vector>

#include "tenzro/planner/plan.hpp"

namespace tenzro::planner {

/// Eligible holders of `slot`, the primary first.
[[nodiscard]] std::vector<Holder> rank(const std::vector<shards::Candidate>& candidates,
                                       View::Slot slot, std::uint32_t rows, const Options& options);

}  // namespace tenzro::planner
