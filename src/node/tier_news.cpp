#include "tenzro/node/tier_news.hpp"

#include <algorithm>

namespace tenzro::node {

void TierNews::on_tier_changed(Instant now, const ExpertKey& key, bool is_in_memory) {
  const auto known = unsettled_.find(key);
  if (known != unsettled_.end()) {
    known->second = now;
  } else if (!is_in_memory) {
    unsettled_.emplace(key, now);
  }
}

std::optional<Instant> TierNews::settle(Instant now,
                                        const std::function<bool(const ExpertKey&)>& is_in_memory) {
  std::optional<Instant> next;
  for (auto it = unsettled_.begin(); it != unsettled_.end();) {
    if (!is_in_memory(it->first)) {
      ++it;
      continue;
    }
    const Instant settles = it->second + heartbeat_;
    if (settles <= now) {
      it = unsettled_.erase(it);
      continue;
    }
    next = std::min(next.value_or(settles), settles);
    ++it;
  }
  return next;
}

}  // namespace tenzro::node
