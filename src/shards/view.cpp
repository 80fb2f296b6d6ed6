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

View::Held View::remove_provider(const ProviderAddress& address) {
  providers_.erase(address);
  const auto held = held_.extract(address);
  if (!held) return {};
  for (const auto& [model, slots] : held.mapped()) {
    for (const Slot& slot : slots) erase(address, model, slot);
  }
  return std::move(held.mapped());
}

/// Requires that the declaration is there; `held_` is the caller's.
void View::erase(const ProviderAddress& address, const ModelId& model, const Slot& slot) {
  const auto in_model = models_.find(model);
  const auto in_slot = in_model->second.find(slot);
  in_slot->second.erase(address);
  --holdings_;
  if (in_slot->second.empty()) in_model->second.erase(in_slot);
  if (in_model->second.empty()) models_.erase(in_model);
}

void View::declare(const ProviderAddress& address, const ExpertKey& key, Holding holding) {
  if (!providers_.contains(address)) return;
  const Slot slot{key.layer, key.expert};
  if (View::holding(address, key) != nullptr) {
    models_.at(key.model).at(slot).at(address) = std::move(holding);
    return;
  }
  if (holdings_ >= options_.holdings_max) return;
  models_[key.model][slot].emplace(address, std::move(holding));
  held_[address][key.model].insert(slot);
  ++holdings_;
}

void View::withdraw(const ProviderAddress& address, const ExpertKey& key) {
  const auto held = held_.find(address);
  if (held == held_.end()) return;
  const auto model = held->second.find(key.model);
  const Slot slot{key.layer, key.expert};
  if (model == held->second.end() || model->second.erase(slot) == 0) return;
  if (model->second.empty()) held->second.erase(model);
  if (held->second.empty()) held_.erase(held);
  erase(address, key.model, slot);
}

std::vector<Candidate> View::list(const Holders& holders) const {
  std::vector<Candidate> all;
  all.reserve(holders.size());
  for (const auto& [address, holding] : holders) all.push_back({&providers_.at(address), &holding});
  return all;
}

std::vector<Candidate> View::rank(const Holders& holders) const {
  std::vector<Candidate> ranked = list(holders);
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

std::vector<std::pair<View::Slot, std::vector<Candidate>>> View::slots_after(
    const ModelId& model, std::optional<Slot> after, std::size_t count) const {
  std::vector<std::pair<Slot, std::vector<Candidate>>> found;
  const auto it = models_.find(model);
  if (it == models_.end()) return found;
  auto slot = after ? it->second.upper_bound(*after) : it->second.begin();
  for (; slot != it->second.end() && found.size() < count; ++slot)
    found.emplace_back(slot->first, list(slot->second));
  return found;
}

std::vector<ModelId> View::models() const {
  std::vector<ModelId> all;
  all.reserve(models_.size());
  for (const auto& [model, slots] : models_) all.push_back(model);
  return all;
}

const View::Held* View::held(const ProviderAddress& address) const {
  const auto it = held_.find(address);
  return it == held_.end() ? nullptr : &it->second;
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
