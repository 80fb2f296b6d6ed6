#include <algorithm>

#include "tenzro/shards/view.hpp"

namespace tenzro::shards {

std::vector<const Provider*> View::holders_of(const BlobHash& hash, std::size_t scan_max) const {
  std::vector<const Provider*> found;
  for (const auto& [model, slots] : models_) {
    for (const auto& [slot, holders] : slots) {
      if (!add_holders(holders, hash, scan_max, found)) return found;
    }
  }
  return found;
}

bool View::add_holders(const Holders& holders, const BlobHash& hash, std::size_t& scan_left,
                       std::vector<const Provider*>& found) const {
  for (const auto& [address, holding] : holders) {
    if (scan_left == 0) return false;
    --scan_left;
    if (holding.blob != hash) continue;
    const Provider* provider = &providers_.at(address);
    if (std::find(found.begin(), found.end(), provider) == found.end()) found.push_back(provider);
  }
  return true;
}

}  // namespace tenzro::shards
