#pragma once
/// \file
/// FamilyCase: one golden of tests/data/router: a layer, its input, and what the family's reference
/// class made of it.
#include <cstdint>
#include <string>
#include <vector>

#include "support/family_layer.hpp"

namespace tenzro::testing {

struct FamilyCase {
  std::string name;
  FamilyLayer layer;
  std::uint32_t tokens = 0;
  std::uint32_t top_k = 0;
  /// [tokens, d_model]
  std::vector<float> hidden;
  /// [tokens] where the layer is hash-routed, else empty.
  std::vector<std::int64_t> token_ids;
  /// [tokens, num_experts], router bias included where it is one of the logits; empty for Gemma 4.
  std::vector<float> logits;
  /// [tokens, top_k], in the class's own order; without the shared slot.
  std::vector<std::int64_t> ids;
  std::vector<float> weights;
  /// [tokens, d_model]: the whole block, or for Gemma 4 its routed part.
  std::vector<float> output;
};

/// Every case, e.g. "deepseek_v3_negbias".
[[nodiscard]] std::vector<std::string> family_case_names();

/// `folder` is tests/data/router. Stops the program on an unknown name.
[[nodiscard]] FamilyCase load_family_case(const std::string& name, const std::string& folder);

}  // namespace tenzro::testing
