// Job: what it published before, and loads of what it publishes.
#include <utility>

#include "tenzro/wire/uri.hpp"

#include "job.hpp"

namespace tenzro::prepare {

void Job::ask_load(Pending pending, const rpc::PreparedBlob& blob, BufferRef bytes, Outbox& out) {
  const JobId id = context_.ids.next();
  pending_.emplace(id, pending);
  const bool is_gate = pending.purpose == Purpose::gate_load;
  out.emplace_back(LoadPrepared{id,
                                {call_.model, blob.layer},
                                is_gate ? std::nullopt : std::optional(blob.expert),
                                blob.uri,
                                std::move(bytes)});
}

void Job::on_loaded(Instant now, JobId id, const Status& status, Outbox& out) {
  now_ = now;
  const auto node = pending_.extract(id);
  if (!node || !is_running()) return;
  const Pending pending = node.mapped();
  if (pending.purpose == Purpose::held) {
    on_held(pending, status.has_value(), out);
  } else if (status) {
    on_part_done(pending, out);
  } else {
    const bool is_gate = pending.purpose == Purpose::gate_load;
    const std::string which = is_gate ? "the gate" : "expert " + std::to_string(pending.expert);
    refuse({status.error().code, "",
            "loading " + which + " of layer " + std::to_string(call_.layer) + ": " +
                status.error().message()},
           out);
  }
  take_reads(out);
}

void Job::ask_if_held(Pending pending, const rpc::PreparedBlob& blob, Outbox& out) {
  const JobId id = context_.ids.next();
  const bool is_gate = pending.part == 1;
  pending_.emplace(id, pending);
  ++held_unknown_;
  out.emplace_back(LoadPrepared{id,
                                {call_.model, pending.layer},
                                is_gate ? std::nullopt : std::optional(pending.expert),
                                blob.uri,
                                {}});
}

/// Blobs may have been removed since they were published.
void Job::check_published(Outbox& out) {
  unchecked_.clear();
  for (const auto& [slot, blob] : done_)
    unchecked_.push_back({Purpose::there, slot.second, 0, slot.first});
  for (const auto& [layer, blob] : gates_done_) unchecked_.push_back({Purpose::there, 0, 1, layer});
  ask_if_there(out);
}

/// One after the other: there may be more than the store's queue holds.
void Job::ask_if_there(Outbox& out) {
  while (!unchecked_.empty()) {
    const Pending pending = unchecked_.back();
    unchecked_.pop_back();
    const bool is_gate = pending.part == 1;
    const rpc::PreparedBlob& blob =
        is_gate ? gates_done_.at(pending.layer) : done_.at(Slot{pending.layer, pending.expert});
    if (const auto uri = wire::parse_blob_uri(blob.uri))
      return ask(pending, work::ReadBlobRange{.hash = uri->hash}, out);
    forget_blob(pending);
  }
  check_held(out);
}

/// What is gone is made again; a store that cannot say is believed to have it.
void Job::on_there(const Pending& pending, const work::StoreResult& result, Outbox& out) {
  if (!result && result.error().code == ErrorCode::not_found) forget_blob(pending);
  ask_if_there(out);
}

void Job::forget_blob(const Pending& pending) {
  if (pending.part == 1) {
    gates_done_.erase(pending.layer);
  } else {
    done_.erase(Slot{pending.layer, pending.expert});
  }
}

/// The process may have ended between a publication and its load.
void Job::check_held(Outbox& out) {
  held_unknown_ = 0;
  if (call_.loads) {
    for (const auto& [slot, blob] : done_)
      ask_if_held({Purpose::held, slot.second, 0, slot.first}, blob, out);
    for (const auto& [layer, blob] : gates_done_)
      ask_if_held({Purpose::held, 0, 1, layer}, blob, out);
  }
  if (held_unknown_ == 0) next_gguf(out);
}

/// What is not loaded is made again.
void Job::on_held(const Pending& pending, bool is_held, Outbox& out) {
  if (!is_held) forget_blob(pending);
  if (--held_unknown_ == 0) next_gguf(out);
}

}  // namespace tenzro::prepare
