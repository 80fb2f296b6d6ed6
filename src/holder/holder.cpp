#include "tenzro/holder/holder.hpp"

#include <algorithm>

namespace tenzro::holder {

Holder::Holder(const Options& options, work::JobIds& ids)
    : options_(options), ids_(ids), retention_(options.memory_budget_bytes) {}

void Holder::on_index(const std::vector<work::HoldingRow>& rows, Outbox& out) {
  clock_ += rows.size();
  std::uint64_t used = clock_;  // the most recently saved counts as the most recently used
  for (const work::HoldingRow& row : rows) {
    if (row.expert) {
      if (experts_.size() >= options_.holdings_max) continue;
      const ExpertKey key{row.layer.model, row.layer.layer, *row.expert};
      if (experts_.contains(key)) continue;
      Entry& entry = add_entry(key, row)->second;
      entry.used = used--;
      note_idle(entry);
      out.emplace_back(ExpertChanged{key, Change::held_on_disk, row.source_uri});
    } else if (gates_.emplace(row.layer, GateEntry{.row = row}).second) {
      gates_wanted_.push_back(row.layer);
    }
  }
  pump(out);
}

Status Holder::acquire(LeaseId lease, const LayerKey& layer,
                       const std::vector<ExpertIndex>& experts, Outbox& out) {
  if (leases_.size() >= options_.leases_max && !leases_.contains(lease)) {
    return fail(ErrorCode::busy, "", "too many requests in flight");
  }
  std::vector<ExpertKey>& held = leases_[lease];
  for (const ExpertIndex expert : experts) {
    const ExpertKey key{layer.model, layer.layer, expert};
    const auto it = experts_.find(key);
    if (it == experts_.end()) {
      out.emplace_back(ExpertUnavailable{
          lease, expert,
          Error{ErrorCode::runtime, "",
                "expert " + layer.model + " l" + std::to_string(layer.layer) + "/e" +
                    std::to_string(expert) + " is not loaded on this host"}});
      continue;
    }
    Entry& entry = it->second;
    pinned_bytes_ -= pinned_bytes(entry);
    const auto [mine, is_new] = entry.leases.emplace(lease, Told::nothing);
    pinned_bytes_ += pinned_bytes(entry);
    if (!is_new) {
      mine->second = Told::nothing;  // asked again: told again
    } else if (!holds_former(key, lease)) {
      held.push_back(key);
    }
    use(entry);
    if (is_in_memory(entry)) {
      ++counters_.hits;
      offer(key, entry, out);
      continue;
    }
    ++counters_.misses;
    if (entry.resident != nullptr) {
      offer(key, entry, out);
      continue;
    }
    if (entry.is_reading || entry.is_wanted) continue;
    entry.is_wanted = true;
    wanted_.push_back(key);
  }
  pump(out);
  return {};
}

void Holder::release(LeaseId lease, ExpertIndex expert, Outbox& out) {
  const auto it = leases_.find(lease);
  if (it == leases_.end()) return;
  std::vector<ExpertKey>& held = it->second;
  const auto key = std::find_if(held.begin(), held.end(),
                                [&](const ExpertKey& k) { return k.expert == expert; });
  if (key == held.end()) return;
  let_go_former(*key, lease);
  if (const auto entry = experts_.find(*key); entry != experts_.end()) let_go(entry, lease, out);
  held.erase(key);
  if (held.empty()) leases_.erase(it);
  pump(out);
}

void Holder::release_all(LeaseId lease, Outbox& out) {
  const auto it = leases_.find(lease);
  if (it == leases_.end()) return;
  for (const ExpertKey& key : it->second) {
    let_go_former(key, lease);
    if (const auto entry = experts_.find(key); entry != experts_.end()) let_go(entry, lease, out);
  }
  leases_.erase(it);
  pump(out);
}

void Holder::on_job_done(JobId id, const work::JobResult& result, Outbox& out) {
  if (auto load = admitting_.extract(id)) {
    on_load_admitted(std::move(load.mapped()), result, out);
  } else if (auto read = readmitting_.extract(id)) {
    on_read_admitted(read.mapped(), result, out);
  }
  pump(out);
}

void Holder::on_store_done(JobId id, const work::StoreResult& result, Outbox& out) {
  if (auto waiting = loads_reading_.extract(id)) {
    on_load_read(std::move(waiting.mapped()), result, out);
  } else if (auto load = saving_.extract(id)) {
    on_load_saved(std::move(load.mapped()), result, out);
  } else if (auto read = reading_.extract(id)) {
    on_blob_read(std::move(read.mapped()), result, out);
  } else if (auto removal = removing_.extract(id)) {
    on_removed(removal.mapped(), result, out);
  } else if (auto damaged = quarantining_.extract(id)) {
    on_quarantined(damaged.mapped(), result, out);
  }
  pump(out);
}

std::shared_ptr<const work::Gate> Holder::gate(const LayerKey& key) const {
  const auto it = gates_.find(key);
  return it == gates_.end() ? nullptr : it->second.gate;
}

const work::ExpertFacts* Holder::facts(const ExpertKey& key) const {
  const auto it = experts_.find(key);
  return it == experts_.end() ? nullptr : &it->second.row.facts;
}

std::optional<Holder::ExpertView> Holder::expert(const ExpertKey& key) const {
  const auto it = experts_.find(key);
  if (it == experts_.end()) return std::nullopt;
  return ExpertView{it->first, &it->second.row, is_in_memory(it->second)};
}

std::vector<Holder::ExpertView> Holder::experts() const {
  std::vector<ExpertView> views;
  views.reserve(experts_.size());
  for (const auto& [key, entry] : experts_) {
    views.push_back({key, &entry.row, is_in_memory(entry)});
  }
  return views;
}

std::vector<Holder::ExpertView> Holder::experts_after(const std::optional<ExpertKey>& after,
                                                      std::size_t max) const {
  std::vector<ExpertView> views;
  for (auto it = after ? experts_.upper_bound(*after) : experts_.begin();
       it != experts_.end() && views.size() < max; ++it) {
    views.push_back({it->first, &it->second.row, is_in_memory(it->second)});
  }
  return views;
}

std::uint64_t Holder::last_use(const ExpertKey& key) const {
  const auto it = experts_.find(key);
  return it == experts_.end() ? 0 : it->second.used;
}

const work::HoldingRow* Holder::gate_row(const LayerKey& key) const {
  const auto it = gates_.find(key);
  return it == gates_.end() || it->second.gate == nullptr ? nullptr : &it->second.row;
}

std::vector<const work::HoldingRow*> Holder::gates() const {
  std::vector<const work::HoldingRow*> rows;
  for (const auto& [key, entry] : gates_) {
    if (entry.gate != nullptr) rows.push_back(&entry.row);
  }
  return rows;
}

}  // namespace tenzro::holder
