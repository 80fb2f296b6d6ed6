#pragma once
/// \file
/// Trace: what a reference implementation recorded of a checkpoint's MoE layers.
///
/// A safetensors file with, for prompt P and layer L: `P.layers.L.moe_input` and `.moe_output`
/// [tokens, d_model] F32,
/// `.topk_ids` [tokens, top_k] I32. Other tensors are ignored.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "outcome.hpp"

namespace tenzro::cli {

/// One prompt's pass through one layer.
struct TracedPass {
  std::string prompt;
  std::uint32_t layer = 0;
  std::uint32_t tokens = 0;
  std::uint32_t d_model = 0;
  std::uint32_t top_k = 0;
  std::vector<float> input;
  std::vector<float> output;
  std::vector<std::int32_t> expert_ids;
};

/// Ordered by layer, then prompt. A usage failure that names the file where it is no trace.
[[nodiscard]] Outcome<std::vector<TracedPass>> read_trace(const std::string& path);

}  // namespace tenzro::cli
