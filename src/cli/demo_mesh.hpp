#pragma once
/// \file
/// The nodes of a demonstration: one that routes, and those that hold the experts.
///
/// Without holders the router holds everything itself. With them, it slices the layer and keeps its
/// gate; each holder fetches every expert from it by `tenzro://blob/` URI, so that each expert is
/// held as often as there are holders.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "command.hpp"

namespace tenzro::cli {

struct DemoMesh {
  Node& router;
  std::vector<std::unique_ptr<Node>> holders;
};

/// What a layer is made of: the number of its experts.
[[nodiscard]] Outcome<std::size_t> bring_up_layer(Session& session, DemoMesh& mesh,
                                                  const std::string& model_dir,
                                                  const std::string& quant,
                                                  const std::string& model, std::uint32_t layer);

/// Waits until the router's shard map shows `experts` experts, each held by every holder.
[[nodiscard]] Outcome<void> wait_for_holders(Session& session, DemoMesh& mesh,
                                             const std::string& model, std::size_t experts);

}  // namespace tenzro::cli
