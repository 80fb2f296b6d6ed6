#include <algorithm>
#include <utility>

#include "tenzro/holder/holder.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/work/disk_error.hpp"

namespace tenzro::holder {
namespace {

/// Experts on disk that the background looks at for one that fits: they are about alike, so where
/// these do not fit the others hardly do.
constexpr std::size_t kIdleLookMax = 64;

}  // namespace

void Holder::begin_read(Read read, Outbox& out) {
  const JobId id = ids_.next();
  reserved_bytes_ += read.bytes;
  if (read.is_background) ++background_reads_;
  if (!read.expert) ++gate_reads_;
  bool wants_hash = true;
  if (read.expert) {
    Entry& entry = experts_.at({read.layer.model, read.layer.layer, *read.expert});
    entry.is_reading = true;
    note_idle(entry);
    wants_hash = !entry.is_checked || options_.verifies_every_read;
  }
  if (read.is_by_slices) {
    out.emplace_back(Store{id, work::OpenBlob{read.hash}});
  } else {
    work::ReadBlob blob{.hash = read.hash, .wants_hash = wants_hash};
    blob.may_arrive = read.expert.has_value();
    // What it becomes has half of what is reserved, and is no smaller than its weights are here.
    if (read.expert) blob.whole_bytes_max = read.bytes / 2 + wire::kStreamedHeaderBytesMax;
    out.emplace_back(Store{id, blob});
  }
  reading_.emplace(id, std::move(read));
}

void Holder::end_read(const Read& read) {
  reserved_bytes_ -= read.bytes;
  is_settled_ = false;
  if (read.is_background) --background_reads_;
  if (!read.expert) --gate_reads_;
}

void Holder::on_blob_read(Read read, const work::StoreResult& result, Outbox& out) {
  if (!result) {
    end_read(read);
    fail_read(read, result.error(), out);
    return;
  }
  admit_read(std::move(read), result, out);
}

void Holder::admit_read(Read read, const work::StoreResult& result, Outbox& out) {
  const JobId id = ids_.next();
  if (!read.expert) {
    out.emplace_back(Run{id, work::AdmitGate{std::get<work::ReadBytes>(*result).bytes, read.hash}});
    readmitting_.emplace(id, std::move(read));
    return;
  }
  const auto it = experts_.find({read.layer.model, read.layer.layer, *read.expert});
  work::AdmitExpert admit{.blob = {}, .expected_hash = read.hash};
  std::optional<BlobHash> hash;
  if (const auto* opened = std::get_if<work::OpenedBlob>(&*result)) {
    admit.source = opened->source;
    admit.memory_bytes_max = read.bytes;
    read.file = opened->file;
  } else if (const auto* arriving = std::get_if<work::Arriving>(&*result)) {
    admit.arriving = arriving->blob;
    admit.held_bytes_max = read.bytes / 2;
    read.file = arriving->file;
  } else {
    const auto& blob = std::get<work::ReadBytes>(*result);
    admit.blob = blob.bytes;
    admit.held_bytes_max = read.bytes / 2;
    read.file = blob.file;
    hash = blob.hash;
  }
  const bool is_known = it != experts_.end() && it->second.row.hash == read.hash &&
                        it->second.is_checked && it->second.file == read.file;
  admit.are_values_known = is_known;
  admit.is_checked = (is_known && !options_.verifies_every_read) || hash == read.hash;
  out.emplace_back(Run{id, std::move(admit)});
  readmitting_.emplace(id, std::move(read));
}

void Holder::on_read_admitted(const Read& read, const work::JobResult& result, Outbox& out) {
  end_read(read);
  if (!result) {
    fail_read(read, result.error(), out);
    return;
  }
  if (!read.expert) {
    const auto it = gates_.find(read.layer);
    if (it == gates_.end() || it->second.gate != nullptr || it->second.row.hash != read.hash)
      return;
    it->second.gate = std::get<work::AdmittedGate>(*result).gate;
    add_gate_bytes(it->second.gate->bytes, out);
    out.emplace_back(GateChanged{read.layer, Change::held_in_memory});
    return;
  }
  const ExpertKey key{read.layer.model, read.layer.layer, *read.expert};
  const auto it = experts_.find(key);
  if (it == experts_.end() || it->second.resident != nullptr || it->second.row.hash != read.hash) {
    return;  // unloaded or replaced meanwhile
  }
  const auto& admitted = std::get<work::AdmittedExpert>(*result);
  Entry& entry = it->second;
  entry.is_reading = false;
  entry.has_failed_read = false;
  entry.is_damage_told = false;
  entry.is_checked = true;
  entry.file = read.file;
  entry.row.facts =
      admitted.facts;  // another backend may hold it in other bytes than the last life's
  if (admitted.resident == nullptr) return read_again(key, admitted, out);
  if (admitted.resident->is_streamed()) {
    if (entry.leases.empty()) {  // whoever wanted it is gone, or it is larger than was expected
      entry.has_failed_read = read.is_background;
      return note_idle(entry);
    }
    ++counters_.streamed;
    take_memory(entry, admitted.resident);
    return offer(key, entry, out);
  }
  ++(entry.leases.empty() ? counters_.promoted_idle : counters_.promoted_wanted);
  take_memory(entry, admitted.resident);
  out.emplace_back(ExpertChanged{key, Change::held_in_memory, entry.row.source_uri});
  offer(key, entry, out);
  // It may be larger here than in the last life, and whoever wanted it may be gone.
  shed(out);
  const bool is_more = entry.held_bytes > read.bytes;
  if (is_more && taken_bytes() > budget_bytes()) ++counters_.admissions_over_budget;
}

void Holder::fail_read(const Read& read, const Error& error, Outbox& out) {
  Entry* entry = nullptr;
  if (read.expert) {
    const auto it = experts_.find({read.layer.model, read.layer.layer, *read.expert});
    // Unloaded, replaced, or loaded anew while this read was under way: it speaks of the past.
    if (it == experts_.end() || it->second.row.hash != read.hash || it->second.resident != nullptr)
      return;
    entry = &it->second;
    entry->is_reading = false;
    entry->has_failed_read = true;
    note_idle(*entry);
    refuse_waiters(it->first, *entry, work::disk_error(error), out);
  } else {
    const auto it = gates_.find(read.layer);
    if (it == gates_.end() || it->second.row.hash != read.hash || it->second.gate != nullptr)
      return;
  }
  // May pass, with a larger budget too.
  if (error.code == ErrorCode::busy || error.code == ErrorCode::cancelled ||
      error.code == ErrorCode::no_space)
    return;
  if (entry == nullptr || !std::exchange(entry->is_damage_told, true))
    out.emplace_back(BlobDamaged{read.hash, error.message()});
  // A blob that this build cannot use stays where it is. One that is gone, unreadable, or other
  // bytes than its name says is withdrawn once the store, reading again, has seen the damage too.
  // Whatever is wrong with bytes that were good before: nobody has hashed them this time.
  const bool was_good = entry != nullptr && std::exchange(entry->is_checked, false);
  if (!was_good && error.code != ErrorCode::io && error.code != ErrorCode::not_found) return;
  quarantine(read.hash, out);
}

void Holder::quarantine(const BlobHash& hash, Outbox& out) {
  const bool is_under_way = std::any_of(quarantining_.begin(), quarantining_.end(),
                                        [&](const auto& one) { return one.second == hash; });
  if (is_under_way) return;
  const JobId id = ids_.next();
  out.emplace_back(Store{id, work::QuarantineBlob{hash}});
  quarantining_.emplace(id, hash);
}

void Holder::on_quarantined(const BlobHash& hash, const work::StoreResult& result, Outbox& out) {
  // False or an error: the blob is whole, or cannot be told.
  if (!result || !std::get<work::Removed>(*result).existed) return;
  // The store forgot every row of that blob with it, and says so once: of all its holders none is
  // left, be its weights in memory or not.
  for (auto it = gates_.begin(); it != gates_.end();) {
    const auto at = it++;
    if (at->second.row.hash == hash) withdraw_gate(at, out);
  }
  for (auto it = experts_.begin(); it != experts_.end();) {
    const auto at = it++;
    if (at->second.row.hash != hash) continue;
    withdraw_expert(at, work::disk_error({ErrorCode::io, "", "the blob is damaged"}), out);
  }
}

void Holder::pump(Outbox& out) {
  pump_gates(out);
  pump_wanted(out);
  pump_loads(out);
  if (wanted_.empty() && loads_waiting_.empty()) pump_background(out);
}

void Holder::pump_gates(Outbox& out) {
  while (!gates_wanted_.empty() && gate_reads_ < options_.gate_reads_max) {
    const LayerKey layer = gates_wanted_.front();
    gates_wanted_.pop_front();
    const auto it = gates_.find(layer);
    if (it == gates_.end() || it->second.gate != nullptr) continue;
    begin_read(Read{.layer = layer, .hash = it->second.row.hash}, out);
  }
}

bool Holder::can_read_ahead() const {
  return options_.reads_ahead || (pinned_bytes_ == 0 && reserved_bytes_ == 0);
}

/// Where another load runs, others move on when it ends.
bool Holder::is_turn_of_loads() const {
  return !loads_waiting_.empty() && loads_running_ == 0 && reads_passes_ >= kReadsPassMax;
}

void Holder::pump_wanted(Outbox& out) {
  std::size_t at = 0;
  while (at < wanted_.size() && can_read_ahead() && !is_turn_of_loads()) {
    if (at > 0 && (at > kPassLookMax || wanted_passes_ >= kPassesMax)) return;
    const auto it = experts_.find(wanted_[at]);
    const bool is_over = it == experts_.end() || it->second.resident != nullptr ||
                         it->second.is_reading || !has_waiters(it->second);
    if (!is_over && !begin_wanted(it, out)) {
      ++at;  // in turns: a lease that lets go comes back here
      continue;
    }
    if (it != experts_.end()) it->second.is_wanted = false;
    wanted_.erase(wanted_.begin() + static_cast<std::ptrdiff_t>(at));
    if (at == 0) {
      wanted_passes_ = 0;
    } else if (!is_over) {
      ++wanted_passes_;
    }
  }
}

bool Holder::begin_wanted(Experts::iterator it, Outbox& out) {
  const auto& [key, entry] = *it;
  const Passage passage = passage_of(entry);
  if (!make_room(passage.bytes, out)) return false;
  if (!loads_waiting_.empty()) ++reads_passes_;
  begin_read(Read{.layer = {key.model, key.layer},
                  .expert = key.expert,
                  .hash = entry.row.hash,
                  .is_by_slices = passage.is_by_slices,
                  .bytes = passage.bytes},
             out);
  return true;
}

void Holder::pump_background(Outbox& out) {
  if (!is_ready() || is_settled_) return;
  const std::uint64_t budget = budget_bytes();
  while (background_reads_ < options_.background_reads_max) {
    const Experts::value_type* best = nullptr;
    std::optional<Passage> passage;
    const std::uint64_t room = budget - std::min(budget, taken_bytes());
    std::size_t looked_at = 0;
    for (auto at = idle_.rbegin(); at != idle_.rend() && looked_at < kIdleLookMax; ++at) {
      ++looked_at;
      const auto it = items_[static_cast<std::size_t>(at->second)];
      passage = passage_within(room, it->second.row.facts.resident_bytes);
      if (!passage) continue;
      best = &*it;
      break;
    }
    if (best == nullptr) {
      // Until memory is freed or an expert comes, nothing can change.
      is_settled_ = background_reads_ == 0;
      return;
    }
    const auto& [key, entry] = *best;
    begin_read(Read{.layer = {key.model, key.layer},
                    .expert = key.expert,
                    .hash = entry.row.hash,
                    .is_background = true,
                    .is_by_slices = passage->is_by_slices,
                    .bytes = passage->bytes},
               out);
  }
}

}  // namespace tenzro::holder
