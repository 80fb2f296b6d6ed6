// Job: loads of what it published.
#include <utility>

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
  const bool is_gate = pending.part == 1;
  if (!is_held && is_gate) gates_done_.erase(pending.layer);
  if (!is_held && !is_gate) done_.erase(Slot{pending.layer, pending.expert});
  if (--held_unknown_ == 0) next_gguf(out);
}

}  // namespace tenzro::prepare
