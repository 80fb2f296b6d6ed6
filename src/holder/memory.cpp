#include <algorithm>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/holder/holder.hpp"

namespace tenzro::holder {

bool Holder::make_room(std::uint64_t bytes, Outbox& out) {
  const std::uint64_t budget = budget_bytes();
  if (pinned_bytes_ + reserved_bytes_ + bytes > budget) return false;
  while (taken_bytes() + bytes > budget) {
    const auto victim = retention_.victim([this](ItemId item) {
      return items_[static_cast<std::size_t>(item)]->second.leases.empty();
    });
    TENZRO_ASSERT(victim.has_value());  // what is neither pinned nor reserved can go
    const auto it = items_[static_cast<std::size_t>(*victim)];
    evict(it->first, it->second, out);
  }
  return true;
}

std::uint64_t Holder::stream_bytes() const {
  return std::min(options_.stream_bytes_max, budget_bytes() / 2);
}

std::optional<Passage> Holder::passage_within(std::uint64_t room, std::uint64_t bytes) const {
  if (bytes <= room / 2) return Passage{.bytes = 2 * bytes};
  const std::uint64_t slice = stream_bytes() / 2;
  if (bytes > room || slice > room - bytes) return std::nullopt;
  return Passage{.bytes = bytes + slice, .is_by_slices = true};
}

Passage Holder::passage_of(std::uint64_t bytes) const {
  const Passage scratch{.bytes = stream_bytes(), .is_by_slices = true};
  return passage_within(budget_bytes(), bytes).value_or(scratch);
}

void Holder::add_gate_bytes(std::uint64_t bytes, Outbox& out) {
  counters_.gate_bytes += bytes;
  retention_.set_capacity(budget_bytes());
  shed(out);
}

void Holder::take_gate_bytes(std::uint64_t bytes) {
  counters_.gate_bytes -= bytes;
  retention_.set_capacity(budget_bytes());
  is_settled_ = false;
}

void Holder::set_memory_budget(std::uint64_t bytes, Outbox& out) {
  options_.memory_budget_bytes = bytes;
  retention_.set_capacity(budget_bytes());
  for (auto& [key, entry] : experts_) note_idle(entry);
  is_settled_ = false;
  shed(out);
  pump(out);
}

void Holder::shed(Outbox& out) {
  while (taken_bytes() > budget_bytes()) {
    const auto victim = retention_.victim([this](ItemId item) {
      return items_[static_cast<std::size_t>(item)]->second.leases.empty();
    });
    if (!victim) return;  // the rest goes as leases let go
    const auto it = items_[static_cast<std::size_t>(*victim)];
    evict(it->first, it->second, out);
  }
}

void Holder::evict(const ExpertKey& key, Entry& entry, Outbox& out) {
  drop_memory(entry);
  ++counters_.evicted_to_disk;
  note_idle(entry);
  out.emplace_back(ExpertChanged{key, Change::held_on_disk, entry.row.source_uri});
}

void Holder::drop_memory(Entry& entry) {
  if (entry.resident == nullptr) return;
  const std::uint64_t bytes = entry.held_bytes;
  TENZRO_ASSERT(counters_.memory_bytes >= bytes);
  pinned_bytes_ -= pinned_bytes(entry);
  counters_.memory_bytes -= bytes;
  if (!entry.is_streamed()) {
    --counters_.memory_experts;
    ++counters_.disk_experts;
    retention_.on_leave(entry.item);
  }
  entry.resident = nullptr;
  entry.held_bytes = 0;
  is_settled_ = false;
}

void Holder::keep_former(const ExpertKey& key, Entry& entry) {
  if (entry.resident == nullptr) return;
  Former former{.bytes = entry.held_bytes, .leases = {}};
  for (auto& [lease, told] : entry.leases) {
    if (told != Told::current) continue;
    told = Told::former;
    former.leases.insert(lease);
  }
  if (former.leases.empty()) return;
  counters_.memory_bytes += former.bytes;
  pinned_bytes_ += former.bytes;
  formers_.emplace(key, std::move(former));
}

void Holder::let_go_former(const ExpertKey& key, LeaseId lease) {
  auto [it, end] = formers_.equal_range(key);
  while (it != end) {
    const auto at = it++;
    Former& former = at->second;
    if (former.leases.erase(lease) == 0 || !former.leases.empty()) continue;
    counters_.memory_bytes -= former.bytes;
    pinned_bytes_ -= former.bytes;
    is_settled_ = false;
    formers_.erase(at);
  }
}

bool Holder::holds_former(const ExpertKey& key, LeaseId lease) const {
  const auto [begin, end] = formers_.equal_range(key);
  return std::any_of(begin, end,
                     [&](const auto& former) { return former.second.leases.contains(lease); });
}

bool Holder::has_waiters(const Entry& entry) {
  return std::any_of(entry.leases.begin(), entry.leases.end(),
                     [](const auto& lease) { return lease.second == Told::nothing; });
}

void Holder::take_memory(Entry& entry, std::shared_ptr<const compute::ResidentExpert> resident) {
  TENZRO_ASSERT(entry.resident == nullptr);
  entry.resident = std::move(resident);
  entry.held_bytes = entry.is_streamed() ? entry.resident->bytes() : entry.row.facts.resident_bytes;
  note_idle(entry);
  pinned_bytes_ += pinned_bytes(entry);
  counters_.memory_bytes += entry.held_bytes;
  if (entry.is_streamed()) return;
  retention_.on_enter(entry.item);
  ++counters_.memory_experts;
  --counters_.disk_experts;
}

void Holder::use(Entry& entry) {
  idle_.erase({entry.used, entry.item});
  entry.used = ++clock_;
  retention_.on_use(entry.item, entry.row.facts.resident_bytes);
  note_idle(entry);
}

void Holder::note_idle(Entry& entry) {
  const bool is_idle = entry.resident == nullptr && !entry.is_reading && !entry.has_failed_read &&
                       passage_within(budget_bytes(), entry.row.facts.resident_bytes);
  if (is_idle) {
    if (idle_.emplace(entry.used, entry.item).second) is_settled_ = false;
  } else {
    idle_.erase({entry.used, entry.item});
  }
}

Holder::Experts::iterator Holder::add_entry(const ExpertKey& key, work::HoldingRow row) {
  const auto it = experts_.emplace(key, Entry{.row = std::move(row)}).first;
  if (free_items_.empty()) {
    free_items_.push_back(ItemId{static_cast<std::uint32_t>(items_.size())});
    items_.emplace_back();
  }
  it->second.item = free_items_.back();
  free_items_.pop_back();
  items_[static_cast<std::size_t>(it->second.item)] = it;
  ++counters_.disk_experts;
  return it;
}

void Holder::erase_entry(Experts::iterator it) {
  Entry& entry = it->second;
  keep_former(it->first, entry);
  drop_memory(entry);
  --counters_.disk_experts;
  idle_.erase({entry.used, entry.item});
  retention_.forget(entry.item);
  free_items_.push_back(entry.item);
  experts_.erase(it);
}

void Holder::offer(const ExpertKey& key, Entry& entry, Outbox& out) {
  for (auto& [lease, told] : entry.leases) {
    if (told != Told::nothing) continue;
    told = Told::current;
    // Weights that came inline have no name that others could check.
    const BlobHash blob = entry.row.source_uri ? entry.row.hash : BlobHash{};
    out.emplace_back(ExpertReady{lease, key.expert, entry.resident, {blob, entry.row.facts}});
  }
}

void Holder::let_go(Experts::iterator it, LeaseId lease, Outbox& out) {
  Entry& entry = it->second;
  pinned_bytes_ -= pinned_bytes(entry);
  entry.leases.erase(lease);
  pinned_bytes_ += pinned_bytes(entry);
  if (!entry.leases.empty() || entry.resident == nullptr) return;
  if (entry.is_streamed()) {
    end_stream(it->first, entry, out);
  } else if (taken_bytes() > budget_bytes()) {
    evict(it->first, entry, out);
  }
}

void Holder::end_stream(const ExpertKey& key, Entry& entry, Outbox& out) {
  const bool is_readable = entry.resident->is_readable();
  drop_memory(entry);
  note_idle(entry);
  if (is_readable) return;
  entry.is_checked = false;
  if (!std::exchange(entry.is_damage_told, true)) {
    out.emplace_back(BlobDamaged{
        entry.row.hash, "expert " + key.model + " l" + std::to_string(key.layer) + "/e" +
                            std::to_string(key.expert) + " could not be read while it ran"});
  }
  quarantine(entry.row.hash, out);
}

void Holder::refuse_waiters(const ExpertKey& key, Entry& entry, const Error& error, Outbox& out) {
  pinned_bytes_ -= pinned_bytes(entry);
  for (auto it = entry.leases.begin(); it != entry.leases.end();) {
    if (it->second != Told::nothing) {  // was told it is ready: it keeps its own handle
      ++it;
      continue;
    }
    out.emplace_back(ExpertUnavailable{it->first, key.expert, error});
    const auto lease = leases_.find(it->first);
    if (lease != leases_.end() && !holds_former(key, it->first)) std::erase(lease->second, key);
    it = entry.leases.erase(it);
  }
  pinned_bytes_ += pinned_bytes(entry);
}

}  // namespace tenzro::holder
