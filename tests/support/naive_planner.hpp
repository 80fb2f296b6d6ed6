#pragma once
/// \file
/// The naive twin of planner::make_plan for one expert: the rules one after the other, by
/// elimination.
///
/// Written from the rules in planner/plan.hpp alone (the hashes are shared: they are part of the
/// rules); random comparison holds the two to the same holders in the same order.
#include <cstdint>
#include <vector>

#include "tenzro/planner/plan.hpp"

namespace tenzro::testing {

[[nodiscard]] std::vector<ProviderAddress> naive_holders(
    const std::vector<shards::Candidate>& candidates, shards::View::Slot slot, std::uint32_t rows,
    const planner::Options& options);

}  // namespace tenzro::testing
