#include "tenzro/shards/view.hpp"

#include <algorithm>
#include <tuple>

namespace tenzro::shards {

void View::set_provider(const Provider& provider) {
  const auto it = providers_.find(provider.address);
  if (it != providers_.end()) {
    it->second = provider;
  } else if (providers_.size() < options_.providers_max) {
    providers_.emplace(provider.address, provider);
  }
}

void View::set_rate(const ProviderAddress& address, std::uint32_t committed_tps) {
  if (const auto it = providers_.find(address); it != providers_.end())
    it->second.committed_tps = committed_tps;
}

void View::remove_provider(const ProviderAddress& address) {
  providers_.erase(address);
  for (auto model = models_.begin(); model != models_.end();) {
    for (auto slot = model->second.begin(); slot != model->second.end();) {
      holdings_ -= slot->second.erase(address);
      slot = slot->second.empty() ? model->second.erase(slot) : std::next(slot);
    }
    model = model->second.empty() ? models_.erase(model) : std::next(model);
  }
}

void View::declare(const ProviderAddress& address, const ExpertKey& key, Holding holding) {
  if (!providers_.contains(address)) return;
  const auto model = models_.find(key.model);
  if (model != models_.end()) {
    if (const auto slot = model->second.find({key.layer, key.expert});
        slot != model->second.end()) {
      if (const auto held = slot->second.find(address); held != slot->second.end()) {
        held->second = std::move(holding);
        return;
      }
    }
  }
  if (holdings_ >= options_.holdings_max) return;
  models_[key.model][{key.layer, key.expert}].emplace(address, std::move(holding));
  ++holdings_;
}

void View::withdraw(const ProviderAddress& address, const ExpertKey& key) {
  const auto model = models_.find(key.model);
  if (model == models_.end()) return;
  const auto slot = model->second.find({key.layer, key.expert});
  if (slot == model->second.end()) return;
  holdings_ -= slot->second.erase(address);
  if (slot->second.empty()) model->second.erase(slot);
  if (model->second.empty()) models_.erase(model);
}

std::vector<Candidate> View::rank(const Holders& holders) const {
  std::vector<Candidate> ranked;
  ranked.reserve(holders.size());
  for (const auto& [address, holding] : holders) {
    ranked.push_back({&providers_.at(address), &holding});
  }
  // Holders come in address order, so a stable sort breaks ties by the lower address.
  std::stable_sort(ranked.begin(), ranked.end(), [](const Candidate& a, const Candidate& b) {
    const auto key = [](const Candidate& c) {
      return std::tuple(c.holding->is_warm, c.provider->has_gpu, c.provider->committed_tps);
    };
    return key(a) > key(b);
  });
  return ranked;
}

std::vector<Candidate> View::candidates(const ExpertKey& key) const {
  const auto model = models_.find(key.model);
  if (model == models_.end()) return {};
  const auto slot = model->second.find({key.layer, key.expert});
  if (slot == model->second.end()) return {};
  return rank(slot->second);
}

std::vector<std::pair<View::Slot, std::vector<Candidate>>> View::model(const ModelId& model) const {
  std::vector<std::pair<Slot, std::vector<Candidate>>> all;
  const auto it = models_.find(model);
  if (it == models_.end()) return all;
  all.reserve(it->second.size());
  for (const auto& [slot, holders] : it->second) all.emplace_back(slot, rank(holders));
  return all;
}

std::uint32_t View::count_role(Role role) const {
  return static_cast<std::uint32_t>(
      std::count_if(providers_.begin(), providers_.end(),
                    [&](const auto& entry) { return entry.second.roles.contains(role); }));
}

std::map<ProviderAddress, std::vector<std::pair<ExpertKey, const Holding*>>> View::by_provider()
    const {
  std::map<ProviderAddress, std::vector<std::pair<ExpertKey, const Holding*>>> all;
  for (const auto& [model, slots] : models_) {
    for (const auto& [slot, holders] : slots) {
      for (const auto& [address, holding] : holders)
        all[address].emplace_back(ExpertKey{model, slot.first, slot.second}, &holding);
    }
  }
  return all;
}

const Holding* View::holding(const ProviderAddress& address, const ExpertKey& key) const {
  const auto model = models_.find(key.model);
  if (model == models_.end()) return nullptr;
  const auto slot = model->second.find({key.layer, key.expert});
  if (slot == model->second.end()) return nullptr;
  const auto held = slot->second.find(address);
  return held == slot->second.end() ? nullptr : &held->second;
}

}  // namespace tenzro::shards
