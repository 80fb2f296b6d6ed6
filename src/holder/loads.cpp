#include <algorithm>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/holder/holder.hpp"

namespace tenzro::holder {

Status Holder::load_expert(RequestId waiter, const ExpertKey& key, LoadSource source, Outbox& out) {
  Load load{.waiter = waiter, .source = std::move(source)};
  load.row.layer = {key.model, key.layer};
  load.row.expert = key.expert;
  return begin_load(std::move(load), out);
}

Status Holder::load_gate(RequestId waiter, const LayerKey& key, LoadSource source, Outbox& out) {
  Load load{.waiter = waiter, .source = std::move(source)};
  load.row.layer = key;
  return begin_load(std::move(load), out);
}

Status Holder::begin_load(Load load, Outbox& out) {
  if (loads_waiting_.size() + loads_reading_.size() + admitting_.size() + saving_.size() >=
      options_.loads_max) {
    return fail(ErrorCode::busy, "", "too many loads in progress");
  }
  const bool is_known =
      load.row.expert
          ? experts_.contains({load.row.layer.model, load.row.layer.layer, *load.row.expert})
          : gates_.contains(load.row.layer);
  if (!is_known && experts_.size() + gates_.size() >= options_.holdings_max) {
    return fail(ErrorCode::busy, "",
                "this node already holds " + std::to_string(options_.holdings_max) +
                    " experts and gates, its maximum");
  }
  if (!load.row.expert) {
    admit_load(std::move(load), out);
    return {};
  }
  if (!load.source.is_stored()) return begin_sent_load(std::move(load), out);
  loads_waiting_.push_back(std::move(load));
  pump(out);
  return {};
}

Status Holder::begin_sent_load(Load load, Outbox& out) {
  const std::string bytes = std::to_string(load.source.blob.size());
  const std::string budget = std::to_string(budget_bytes());
  if (load.source.blob.size() > budget_bytes()) {
    return fail(ErrorCode::no_space, "",
                "an expert of " + bytes + " bytes does not fit in the " + budget +
                    " bytes that this node has for experts: publish its blob and load it by URI");
  }
  // Of two loads of one expert the later is the one that stays.
  const bool is_second =
      std::any_of(loads_waiting_.begin(), loads_waiting_.end(), [&](const Load& earlier) {
        return earlier.row.layer == load.row.layer && earlier.row.expert == load.row.expert;
      });
  const bool is_passed_enough = (!wanted_.empty() && wanted_passes_ >= kPassesMax) ||
                                (!loads_waiting_.empty() && loads_passes_ >= kPassesMax);
  if (is_second || is_passed_enough || !reserve_for_sent(load, out)) {
    return fail(ErrorCode::busy, "",
                "no room now for an expert of " + bytes +
                    " bytes: " + std::to_string(pinned_bytes_ + reserved_bytes_) + " of " + budget +
                    " bytes for experts are in use");
  }
  if (!wanted_.empty()) ++wanted_passes_;
  if (!loads_waiting_.empty()) ++loads_passes_;
  admit_load(std::move(load), out);
  return {};
}

bool Holder::reserve_for_sent(Load& load, Outbox& out) {
  const std::uint64_t bytes = load.source.blob.size();
  const Passage passage = passage_of(bytes);
  load.is_only_checked = passage.is_by_slices || !make_room(passage.bytes, out);
  if (load.is_only_checked && !make_room(bytes, out)) return false;
  reserve_for(load, load.is_only_checked ? bytes : passage.bytes);
  return true;
}

void Holder::pump_loads(Outbox& out) {
  std::size_t at = 0;
  while (at < loads_waiting_.size()) {
    if (at > 0 && (at > kPassLookMax || loads_passes_ >= kPassesMax)) return;
    if (!wanted_.empty() && wanted_passes_ >= kPassesMax && !is_turn_of_loads()) return;
    if (loads_running_ >= options_.loads_running_max) return;
    if (!begin_waiting_load(at, out)) {
      ++at;
      continue;
    }
    if (!wanted_.empty()) ++wanted_passes_;
    loads_passes_ = at == 0 ? 0 : loads_passes_ + 1;
    if (at == 0) reads_passes_ = 0;
  }
}

bool Holder::begin_waiting_load(std::size_t at, Outbox& out) {
  const auto next = loads_waiting_.begin() + static_cast<std::ptrdiff_t>(at);
  // Of two loads of one expert the later is the one that stays.
  const bool is_second = std::any_of(loads_waiting_.begin(), next, [&](const Load& earlier) {
    return earlier.row.layer == next->row.layer && earlier.row.expert == next->row.expert;
  });
  if (is_second) return false;
  if (!reserve_passage(*next, out)) return false;
  Load load = std::move(*next);
  loads_waiting_.erase(next);
  read_for_load(std::move(load), out);
  return true;
}

bool Holder::reserve_passage(Load& load, Outbox& out) {
  const Passage passage = passage_of(load.source.bytes());
  if (!make_room(passage.bytes, out)) return false;
  load.is_by_slices = passage.is_by_slices;
  load.slices_bytes = passage.bytes;
  reserve_for(load, passage.bytes);
  return true;
}

void Holder::read_for_load(Load load, Outbox& out) {
  if (!std::exchange(load.is_running, true)) ++loads_running_;
  const JobId id = ids_.next();
  if (load.is_by_slices) {
    out.emplace_back(Store{id, work::OpenBlob{*load.source.uri_hash}});
    loads_reading_.emplace(id, std::move(load));
    return;
  }
  out.emplace_back(Store{id, work::ReadBlob{.hash = *load.source.uri_hash,
                                            .wants_hash = true,
                                            .may_arrive = true,
                                            .whole_bytes_max = load.source.stored_bytes}});
  loads_reading_.emplace(id, std::move(load));
}

void Holder::on_load_read(Load load, const work::StoreResult& result, Outbox& out) {
  if (!result) {
    fail_load(load, result.error(), out);
    return;
  }
  const BlobHash expected = *load.source.uri_hash;
  const JobId id = ids_.next();
  work::AdmitExpert admit{.blob = {}, .expected_hash = expected};
  if (const auto* opened = std::get_if<work::OpenedBlob>(&*result)) {
    admit.source = opened->source;
    admit.memory_bytes_max = load.slices_bytes;
    load.file = opened->file;
  } else if (const auto* arriving = std::get_if<work::Arriving>(&*result)) {
    admit.arriving = arriving->blob;
    admit.held_bytes_max = held_bytes_max(load, out);
    load.file = arriving->file;
  } else {
    const auto& read = std::get<work::ReadBytes>(*result);
    admit.blob = read.bytes;
    admit.is_checked = read.hash == expected;
    admit.held_bytes_max = held_bytes_max(load, out);
    load.file = read.file;
  }
  out.emplace_back(Run{id, std::move(admit)});
  admitting_.emplace(id, std::move(load));
}

void Holder::admit_load(Load load, Outbox& out) {
  const JobId id = ids_.next();
  std::optional<BlobHash> expected;
  if (!load.source.is_inline) expected = load.source.uri_hash;
  if (load.row.expert) {
    work::AdmitExpert admit{.blob = load.source.blob, .expected_hash = expected};
    if (load.is_again) {
      admit.expected_hash = load.row.hash;
      admit.is_checked = true;
    }
    admit.held_bytes_max = load.is_only_checked ? 0 : held_bytes_max(load, out);
    out.emplace_back(Run{id, std::move(admit)});
  } else {
    out.emplace_back(Run{id, work::AdmitGate{load.source.blob, expected}});
  }
  admitting_.emplace(id, std::move(load));
}

void Holder::on_load_admitted(Load load, const work::JobResult& result, Outbox& out) {
  if (!result) {
    fail_load(load, result.error(), out);
    return;
  }
  if (const auto* expert = std::get_if<work::AdmittedExpert>(&*result)) {
    if (!take_expert(load, *expert, out)) return;
  } else {
    const auto& admitted = std::get<work::AdmittedGate>(*result);
    if (Status room = check_gate_room(load.row.layer, admitted.gate->bytes); !room)
      return fail_load(load, room.error(), out);
    load.row.hash = admitted.hash;
    load.gate = admitted.gate;
    load.row.gate_experts = admitted.gate->router.num_experts();
    load.row.gate_d_model = admitted.gate->router.d_model();
    load.row.gate_bytes = admitted.gate->bytes;
  }
  if (load.source.uri && load.source.uri_hash == load.row.hash)
    load.row.source_uri = load.source.uri;
  const JobId id = ids_.next();
  out.emplace_back(Store{id, work::SaveHolding{load.row, std::move(load.source.blob)}});
  saving_.emplace(id, std::move(load));
}

void Holder::on_load_saved(Load load, const work::StoreResult& result, Outbox& out) {
  if (!result) {
    finish_load(load, tl::unexpected<Error>(result.error()), out);
    return;
  }
  if (load.row.expert) {
    const work::FileMark file = std::get<work::Saved>(*result).file;
    // What was sent was checked in memory and became that file; what was read may have been
    // another.
    const bool is_checked = load.file.value_or(file) == file;
    load.file = file;
    commit_expert(load, is_checked, out);
  } else {
    commit_gate(load, out);
  }
  finish_load(load, {}, out);
}

void Holder::commit_expert(Load& load, bool is_checked, Outbox& out) {
  const ExpertKey key{load.row.layer.model, load.row.layer.layer, *load.row.expert};
  auto it = experts_.find(key);
  if (it == experts_.end()) {
    it = add_entry(key, load.row);
  } else {
    keep_former(key, it->second);
    drop_memory(it->second);
  }
  Entry& entry = it->second;
  entry.row = std::move(load.row);
  entry.is_checked = is_checked;
  entry.file = load.file.value_or(0);
  entry.is_reading = false;  // a read of the old bytes finds another hash and is dropped
  entry.has_failed_read = false;
  entry.is_damage_told = false;
  load.row = entry.row;
  reserve_for(load, 0);
  use(entry);
  const std::uint64_t bytes = entry.row.facts.resident_bytes;
  const bool fits = load.resident != nullptr && taken_bytes() + bytes <= budget_bytes();
  if (fits) {
    take_memory(entry, std::move(load.resident));
    offer(key, entry, out);
  } else if (has_waiters(entry) && !entry.is_wanted) {
    entry.is_wanted = true;
    wanted_.push_back(key);
  }
  load.resident = nullptr;
  out.emplace_back(ExpertChanged{key, fits ? Change::held_in_memory : Change::held_on_disk,
                                 entry.row.source_uri});
}

void Holder::commit_gate(Load& load, Outbox& out) {
  GateEntry& entry = gates_[load.row.layer];
  if (entry.gate != nullptr) take_gate_bytes(entry.gate->bytes);
  entry.gate = std::move(load.gate);
  entry.row = load.row;
  add_gate_bytes(entry.gate->bytes, out);
  out.emplace_back(GateChanged{load.row.layer, Change::held_in_memory});
}

void Holder::reserve_for(Load& load, std::uint64_t bytes) {
  if (bytes < load.reserved_bytes) is_settled_ = false;
  reserved_bytes_ += bytes;
  reserved_bytes_ -= load.reserved_bytes;
  load.reserved_bytes = bytes;
}

void Holder::fail_load(Load& load, const Error& error, Outbox& out) {
  const bool is_lost = !load.source.is_inline && load.source.uri_hash &&
                       (error.code == ErrorCode::io || error.code == ErrorCode::not_found);
  if (is_lost) {
    out.emplace_back(BlobDamaged{*load.source.uri_hash, error.message()});
    quarantine(*load.source.uri_hash, out);
  }
  load.is_blob_lost = is_lost;
  finish_load(load, tl::unexpected<Error>(error), out);
}

void Holder::finish_load(Load& load, Status status, Outbox& out) {
  reserve_for(load, 0);
  if (load.is_running) --loads_running_;
  if (load.row.expert) {
    const ExpertKey key{load.row.layer.model, load.row.layer.layer, *load.row.expert};
    out.emplace_back(ExpertLoaded{load.waiter, key, std::move(status), load.is_blob_lost});
  } else {
    out.emplace_back(GateLoaded{load.waiter, load.row.layer, std::move(status), load.is_blob_lost});
  }
}

}  // namespace tenzro::holder
