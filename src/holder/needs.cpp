#include <algorithm>
#include <string>
#include <utility>

#include "tenzro/holder/holder.hpp"
#include "tenzro/work/disk_error.hpp"

namespace tenzro::holder {
namespace {

/// Panels round up: what becomes of a blob may be larger by so much of it at once.
constexpr std::uint64_t kPackedMoreShare = 8;

}  // namespace

bool Holder::is_servable(const work::AdmittedExpert& expert) const {
  const Passage passage = passage_of(expert.facts.resident_bytes);
  return !passage.is_by_slices || expert.stream_bytes_min <= passage.bytes;
}

Error Holder::too_large(const work::AdmittedExpert& expert) const {
  const std::string bytes = std::to_string(expert.facts.resident_bytes);
  const Passage passage = passage_of(expert.facts.resident_bytes);
  return {ErrorCode::no_space, "",
          "an expert of d_model " + std::to_string(expert.facts.d_model) + " and d_ff " +
              std::to_string(expert.facts.d_ff) + " takes " + bytes + " bytes of memory, or " +
              std::to_string(expert.stream_bytes_min) + " to be run from disk by slices; of the " +
              std::to_string(budget_bytes()) +
              " bytes that this node has for experts it may have " + std::to_string(passage.bytes)};
}

Status Holder::check_gate_room(const LayerKey& layer, std::uint64_t bytes) const {
  const auto it = gates_.find(layer);
  const bool is_replaced = it != gates_.end() && it->second.gate != nullptr;
  const std::uint64_t others = counters_.gate_bytes - (is_replaced ? it->second.gate->bytes : 0);
  const std::uint64_t most = options_.memory_budget_bytes / 2;
  if (others <= most && bytes <= most - others) return {};
  return fail(ErrorCode::no_space, "",
              "a gate of " + std::to_string(bytes) + " bytes beside gates of " +
                  std::to_string(others) + ": they may have " + std::to_string(most) +
                  ", half of the memory budget");
}

/// What it may become beside its blob, which is in memory.
std::uint64_t Holder::held_bytes_max(Load& load, Outbox& out) {
  const std::uint64_t more = load.source.bytes() / kPackedMoreShare;
  if (!load.is_again && make_room(more, out)) reserve_for(load, load.reserved_bytes + more);
  return load.reserved_bytes - load.source.bytes();
}

/// False: it goes on as another job, or has failed.
bool Holder::take_expert(Load& load, const work::AdmittedExpert& expert, Outbox& out) {
  if (!is_servable(expert)) {
    fail_load(load, too_large(expert), out);
    return false;
  }
  load.row.hash = expert.hash;
  load.row.facts = expert.facts;
  load.resident = expert.resident;
  // One that was only checked found no room before, and bytes that were sent do not wait for it.
  if (load.resident == nullptr && !load.is_only_checked && begin_again(load, out)) return false;
  if (load.resident != nullptr && load.resident->is_streamed())
    load.resident = nullptr;  // it is run by slices when wanted
  // From now on no one has read bytes any more: those sent stay until they are durable.
  const std::uint64_t resident = load.resident == nullptr ? 0 : expert.facts.resident_bytes;
  const bool is_more = resident != 0 && resident + load.source.blob.size() > load.reserved_bytes;
  reserve_for(load, resident + load.source.blob.size());
  shed(out);
  if (taken_bytes() > budget_bytes()) {
    load.resident = nullptr;  // it became more than there is room for: it ends on disk
    if (is_more) ++counters_.admissions_over_budget;  // the backend said less
    reserve_for(load, load.source.blob.size());
  }
  return true;
}

/// By what it needs, where there is room for that now.
bool Holder::begin_again(Load& load, Outbox& out) {
  if (std::exchange(load.is_again, true)) return false;
  const std::uint64_t needed = load.row.facts.resident_bytes;
  const auto passage = passage_within(budget_bytes(), needed);
  if (!passage) return false;
  const bool is_stored = load.source.is_stored();
  const std::uint64_t bytes = is_stored ? passage->bytes : load.source.bytes() + needed;
  reserve_for(load, 0);
  if (!make_room(bytes, out)) return false;
  reserve_for(load, bytes);
  load.is_by_slices = is_stored && passage->is_by_slices;
  load.slices_bytes = passage->bytes;
  if (is_stored) {
    read_for_load(std::move(load), out);
  } else {
    admit_load(std::move(load), out);
  }
  return true;
}

/// It takes more than its row said.
void Holder::read_again(const ExpertKey& key, const work::AdmittedExpert& expert, Outbox& out) {
  Entry& entry = experts_.at(key);
  if (!is_servable(expert)) {
    entry.has_failed_read = true;
    note_idle(entry);
    return refuse_waiters(key, entry, work::disk_error(too_large(expert)), out);
  }
  note_idle(entry);
  if (!has_waiters(entry) || entry.is_wanted) return;
  entry.is_wanted = true;
  wanted_.push_front(key);
}

}  // namespace tenzro::holder
