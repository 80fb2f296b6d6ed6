#include "tenzro/catalog/model.hpp"

namespace tenzro::catalog {

bool Model::has_experts(LayerIndex layer) const {
  if (!is_moe()) return false;
  if (layer >= layers) return layer - layers < mtp_layers;
  return pattern.empty() ? layer >= dense_first : pattern[layer] == 'E';
}

std::uint32_t Model::moe_layers() const {
  if (pattern.empty()) return layers - dense_first;
  std::uint32_t count = 0;
  for (const char kind : pattern) count += kind == 'E' ? 1U : 0U;
  return count;
}

}  // namespace tenzro::catalog
