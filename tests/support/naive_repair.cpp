#include "support/naive_repair.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"

namespace tenzro::testing {
namespace {

struct Row {
  ExpertKey key;
  std::size_t staying = 0;
  std::uint32_t rate = 0;
};

bool holds_some(const shards::View& view, const ProviderAddress& who, const ModelId& model) {
  for (const auto& [slot, holders] : view.model(model)) {
    for (const auto& holder : holders) {
      if (holder.provider->address == who) return true;
    }
  }
  return false;
}

std::uint64_t bytes_of_one(const shards::View& view, const ModelId& model,
                           const ProviderAddress& self) {
  std::multiset<std::uint64_t> told;
  for (const auto& [address, provider] : view.providers()) {
    const auto bytes = provider.expert_bytes.find(model);
    if (bytes != provider.expert_bytes.end() && bytes->second != 0 &&
        holds_some(view, address, model)) {
      if (address == self) return bytes->second;
      told.insert(bytes->second);
    }
  }
  return told.empty() ? 0 : *std::next(told.begin(), static_cast<std::ptrdiff_t>(told.size() / 2));
}

bool has_winner(const std::map<BlobHash, std::size_t>& votes) {
  std::vector<std::size_t> counts;
  for (const auto& [blob, count] : votes) counts.push_back(count);
  std::sort(counts.rbegin(), counts.rend());
  return counts.size() == 1 || (counts.size() > 1 && counts[0] > counts[1]);
}

bool could_take(const shards::View& view, const shards::Provider& who, const ExpertKey& key,
                const std::set<ProviderAddress>& holders, const ProviderAddress& self) {
  if (holders.contains(who.address) || who.is_draining || !who.repair_free_bytes) return false;
  if (*who.repair_free_bytes == 0 || *who.repair_free_bytes < bytes_of_one(view, key.model, self))
    return false;
  return who.repair_models.contains("*") || who.repair_models.contains(key.model) ||
         holds_some(view, who.address, key.model);
}

}  // namespace

std::vector<ExpertKey> naive_repair(
    const shards::View& view, const repair::Options& options,
    const std::vector<std::pair<ProviderAddress, ExpertKey>>& absent) {
  std::vector<Row> rows;
  for (const ModelId& model : view.models()) {
    const bool cares = options.models.contains(model) || options.models.contains("*") ||
                       holds_some(view, options.self, model);
    if (!cares) continue;
    for (const auto& [slot, holders] : view.model(model)) {
      Row row{.key = {model, slot.first, slot.second}};
      std::set<ProviderAddress> counted;
      std::set<ProviderAddress> declaring;
      std::map<BlobHash, std::size_t> votes;
      std::vector<std::uint32_t> rates;
      for (const auto& holder : holders) {
        declaring.insert(holder.provider->address);
        row.rate = std::max(row.rate, holder.provider->committed_tps);
        if (holder.holding->blob_uri && holder.holding->blob != BlobHash{})
          ++votes[holder.holding->blob];
        if (holder.provider->is_draining) continue;
        ++row.staying;
        rates.push_back(holder.provider->committed_tps);
      }
      counted = declaring;
      for (const auto& [address, key] : absent) {
        if (key == row.key) counted.insert(address);
      }
      std::size_t missing = 0;
      if (counted.size() < options.policy.min_replication) {
        missing = options.policy.min_replication - counted.size();
      } else if (row.staying == 0) {
        missing = 1;
      } else if (counted.size() < options.policy.max_replication &&
                 *std::min_element(rates.begin(), rates.end()) >=
                     options.policy.hot_threshold_tps) {
        missing = 1;
      }
      if (missing == 0 || !has_winner(votes)) continue;
      std::vector<std::pair<Hash32, ProviderAddress>> scores;
      for (const auto& [address, provider] : view.providers()) {
        if (!could_take(view, provider, row.key, declaring, options.self)) continue;
        scores.emplace_back(
            crypto::sha256("tenzro/moe/placement" + model + "/" + std::to_string(slot.first) + "/" +
                           std::to_string(slot.second) + to_base58(address)),
            address);
      }
      std::sort(scores.rbegin(), scores.rend());
      if (scores.size() > missing) scores.resize(missing);
      for (const auto& [score, address] : scores) {
        if (address == options.self) rows.push_back(row);
      }
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.staying != b.staying ? a.staying < b.staying : a.rate > b.rate;
  });
  std::vector<ExpertKey> keys;
  for (const Row& row : rows) keys.push_back(row.key);
  return keys;
}

}  // namespace tenzro::testing
