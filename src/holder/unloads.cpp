#include "tenzro/holder/holder.hpp"

namespace tenzro::holder {

void Holder::unload_expert(RequestId waiter, const ExpertKey& key, Outbox& out) {
  const LayerKey layer{key.model, key.layer};
  if (!experts_.contains(key)) {
    out.emplace_back(Unloaded{waiter, layer, key.expert, false});
    return;
  }
  const JobId id = ids_.next();
  out.emplace_back(Store{id, work::RemoveHolding{layer, key.expert}});
  removing_.emplace(id, Removal{waiter, layer, key.expert});
}

void Holder::unload_gate(RequestId waiter, const LayerKey& key, Outbox& out) {
  if (!gates_.contains(key)) {
    out.emplace_back(Unloaded{waiter, key, std::nullopt, false});
    return;
  }
  const JobId id = ids_.next();
  out.emplace_back(Store{id, work::RemoveHolding{key, std::nullopt}});
  removing_.emplace(id, Removal{waiter, key, std::nullopt});
}

void Holder::on_removed(const Removal& removal, const work::StoreResult& result, Outbox& out) {
  if (!result) {
    out.emplace_back(Unloaded{removal.waiter, removal.layer, removal.expert,
                              tl::unexpected<Error>(result.error())});
    return;
  }
  bool existed = false;
  if (removal.expert) {
    const auto it = experts_.find({removal.layer.model, removal.layer.layer, *removal.expert});
    existed = it != experts_.end();
    if (existed) withdraw_expert(it, Error{ErrorCode::runtime, "", "expert was unloaded"}, out);
  } else {
    const auto it = gates_.find(removal.layer);
    existed = it != gates_.end();
    if (existed) withdraw_gate(it, out);
  }
  out.emplace_back(Unloaded{removal.waiter, removal.layer, removal.expert, existed});
}

void Holder::withdraw_expert(Experts::iterator it, const Error& error, Outbox& out) {
  const ExpertKey key = it->first;
  refuse_waiters(key, it->second, error, out);
  erase_entry(it);
  out.emplace_back(ExpertChanged{key, Change::withdrawn, std::nullopt});
}

void Holder::withdraw_gate(std::map<LayerKey, GateEntry>::iterator it, Outbox& out) {
  const LayerKey key = it->first;
  if (it->second.gate != nullptr) take_gate_bytes(it->second.gate->bytes);
  gates_.erase(it);
  out.emplace_back(GateChanged{key, Change::withdrawn});
}

}  // namespace tenzro::holder
