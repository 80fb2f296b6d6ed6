#include <algorithm>

#include "tenzro/base/assert.hpp"
#include "tenzro/holder/holder.hpp"

namespace tenzro::holder {

bool Holder::make_room(std::uint64_t bytes, Outbox& out) {
  while (counters_.memory_bytes + reserved_bytes_ + bytes > options_.memory_budget_bytes) {
    auto oldest = experts_.end();
    for (auto it = experts_.begin(); it != experts_.end(); ++it) {
      const Entry& entry = it->second;
      if (entry.resident == nullptr || !entry.leases.empty()) continue;
      if (oldest == experts_.end() || entry.used < oldest->second.used) oldest = it;
    }
    if (oldest == experts_.end()) return false;
    evict(oldest->first, oldest->second, out);
  }
  return true;
}

void Holder::evict(const ExpertKey& key, Entry& entry, Outbox& out) {
  drop_memory(entry);
  ++counters_.evicted_to_disk;
  out.emplace_back(ExpertChanged{key, Change::held_on_disk, entry.row.source_uri});
}

void Holder::drop_memory(Entry& entry) {
  if (entry.resident == nullptr) return;
  TENZRO_ASSERT(counters_.memory_bytes >= entry.row.facts.resident_bytes);
  counters_.memory_bytes -= entry.row.facts.resident_bytes;
  --counters_.memory_experts;
  ++counters_.disk_experts;
  entry.resident = nullptr;
  is_settled_ = false;
}

void Holder::take_memory(Entry& entry, std::shared_ptr<const compute::ResidentExpert> resident) {
  TENZRO_ASSERT(entry.resident == nullptr);
  entry.resident = std::move(resident);
  entry.used = ++clock_;
  counters_.memory_bytes += entry.row.facts.resident_bytes;
  ++counters_.memory_experts;
  --counters_.disk_experts;
}

void Holder::offer(const ExpertKey& key, Entry& entry, Outbox& out) {
  entry.used = ++clock_;
  for (auto& [lease, told] : entry.leases) {
    if (told) continue;
    told = true;
    // Weights that came inline have no name that others could check.
    const BlobHash blob = entry.row.source_uri ? entry.row.hash : BlobHash{};
    out.emplace_back(ExpertReady{lease, key.expert, entry.resident, {blob, entry.row.facts}});
  }
}

void Holder::refuse_waiters(const ExpertKey& key, Entry& entry, const Error& error, Outbox& out) {
  for (auto it = entry.leases.begin(); it != entry.leases.end();) {
    if (it->second) {  // was told it is ready: it keeps its own handle
      ++it;
      continue;
    }
    out.emplace_back(ExpertUnavailable{it->first, key.expert, error});
    if (const auto lease = leases_.find(it->first); lease != leases_.end())
      std::erase(lease->second, key);
    it = entry.leases.erase(it);
  }
}

}  // namespace tenzro::holder
