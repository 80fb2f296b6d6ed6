#pragma once
/// \file
/// One traced pass, served by a node and held against the trace.
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "trace.hpp"

namespace tenzro::cli {

struct ServedPass {
  std::size_t experts_used = 0;
  /// Every token went to the traced experts.
  bool has_traced_ids = true;
  /// Relative L2 error of the outputs against the trace.
  double relative_error = 0;
  double milliseconds = 0;
  /// Batches that other nodes ran, and how often the forward was planned anew.
  std::uint64_t batches_remote = 0;
  std::uint64_t replans = 0;
  std::vector<float> outputs;
};

[[nodiscard]] Outcome<ServedPass> serve_pass(Node& node, const std::string& model,
                                             const TracedPass& pass);

/// Whether two outputs are the same bit for bit.
[[nodiscard]] bool has_same_bits(const ServedPass& a, const ServedPass& b);

}  // namespace tenzro::cli
