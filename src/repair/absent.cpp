#include "tenzro/repair/absent.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tenzro::repair {
namespace {

std::size_t count(const shards::View::Held& held) {
  std::size_t holdings = 0;
  for (const auto& [model, slots] : held) holdings += slots.size();
  return holdings;
}

}  // namespace

void Absent::on_gone(Instant now, const ProviderAddress& address, shards::View::Held held,
                     Instant known_since) {
  if (grace_ <= Duration{0} || held.empty()) return;
  auto [it, is_new] = providers_.try_emplace(address);
  Entry& entry = it->second;
  if (is_new) {
    entry.known_since = known_since;
    entry.until = now + grace_;
  }
  holdings_ -= entry.holdings;
  for (auto& gone : held) entry.held[gone.first].merge(gone.second);
  entry.holdings = count(entry.held);
  holdings_ += entry.holdings;
  while (providers_.size() > kProvidersMax || (holdings_ > kHoldingsMax && !providers_.empty()))
    drop_least_known();
}

void Absent::drop_least_known() {
  const auto least =
      std::max_element(providers_.begin(), providers_.end(), [](const auto& a, const auto& b) {
        return std::tie(a.second.known_since, a.second.until) <
               std::tie(b.second.known_since, b.second.until);
      });
  holdings_ -= least->second.holdings;
  providers_.erase(least);
}

void Absent::on_tick(Instant now) {
  for (auto it = providers_.begin(); it != providers_.end();) {
    if (it->second.until > now) {
      ++it;
      continue;
    }
    holdings_ -= it->second.holdings;
    it = providers_.erase(it);
  }
}

std::vector<Absent::Holder> Absent::holders_of(const ModelId& model) const {
  std::vector<Holder> holders;
  for (const auto& [address, entry] : providers_) {
    if (const auto held = entry.held.find(model); held != entry.held.end())
      holders.push_back({address, &held->second});
  }
  return holders;
}

}  // namespace tenzro::repair
