#pragma once
/// \file
/// What a pass of repair names a node for, straight from the rules: every expert, every candidate,
/// no memory.
#include <vector>

#include "tenzro/repair/repair.hpp"

namespace tenzro::testing {

/// Rows of this node, in the order in which they are to be fetched.
[[nodiscard]] std::vector<ExpertKey> naive_repair(
    const shards::View& view, const repair::Options& options,
    const std::vector<std::pair<ProviderAddress, ExpertKey>>& absent);

}  // namespace tenzro::testing
