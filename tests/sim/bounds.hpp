#pragma once
/// \file
/// The limits a node sets itself, looked at from outside.
#include <optional>
#include <string>

#include "sim/sim_node.hpp"

namespace tenzro::testing {

/// Which of its limits the node exceeds at this moment: memory of experts, requests in progress,
/// bytes on disk, peers known, fetches of its own. A node that is down exceeds none.
[[nodiscard]] std::optional<std::string> exceeded_limit(const SimNode& node);

}  // namespace tenzro::testing
