// Node: what prepare jobs ask of it, loads of what they published among them.
#include "tenzro/node/node.hpp"
#include "tenzro/wire/uri.hpp"

namespace tenzro::node {

void Node::take_prepare(Instant now, prepare::Action& action, Outbox& out) {
  if (auto* run = std::get_if<prepare::Run>(&action)) {
    owners_.emplace(run->id, Core::prepare);
    out.emplace_back(Run{run->id, std::move(run->job)});
  } else if (auto* store = std::get_if<prepare::Store>(&action)) {
    owners_.emplace(store->id, Core::prepare);
    out.emplace_back(Store{store->id, std::move(store->op)});
  } else if (auto* download = std::get_if<work::Download>(&action)) {
    out.emplace_back(std::move(*download));
  } else if (const auto* cancelled = std::get_if<work::CancelCall>(&action)) {
    out.emplace_back(*cancelled);
  } else if (auto* load = std::get_if<prepare::LoadPrepared>(&action)) {
    load_prepared(now, *load);
  } else {
    auto& started = std::get<prepare::Started>(action);
    if (started.answer) {
      reply(started.waiter, std::move(*started.answer), out);
    } else {
      reply(started.waiter, fail(started.answer.error()), out);
    }
  }
}

Status Node::is_held(const prepare::LoadPrepared& load) const {
  const work::HoldingRow* row = nullptr;
  if (!load.expert) {
    row = holder_.gate_row(load.layer);
  } else if (const auto held = holder_.expert({load.layer.model, load.layer.layer, *load.expert})) {
    row = held->row;
  }
  const bool is_held = row != nullptr && wire::format_blob_uri(row->hash) == load.uri;
  if (is_held) return {};
  return fail(ErrorCode::not_found, load.uri, "is not loaded");
}

void Node::load_prepared(Instant now, prepare::LoadPrepared& load) {
  if (load.blob.empty()) return prepare_.on_loaded(now, load.id, is_held(load), prepare_out_);
  if (is_draining_) {
    const Status refused =
        fail(ErrorCode::infrastructure, "", "this node is draining and takes no new experts");
    return prepare_.on_loaded(now, load.id, refused, prepare_out_);
  }
  const RequestId waiter{static_cast<std::uint64_t>(load.id) | kPreparedBit};
  holder::LoadSource source{.uri = load.uri, .is_inline = false};
  if (const auto uri = wire::parse_blob_uri(load.uri)) source.uri_hash = uri->hash;
  // The store has it: an expert is read back when there is room for it.
  if (load.expert && source.uri_hash) {
    source.stored_bytes = load.blob.size();
  } else {
    source.blob = std::move(load.blob);
  }
  const LayerKey& layer = load.layer;
  const Status begun = load.expert
                           ? holder_.load_expert(waiter, {layer.model, layer.layer, *load.expert},
                                                 std::move(source), holder_out_)
                           : holder_.load_gate(waiter, layer, std::move(source), holder_out_);
  if (!begun) prepare_.on_loaded(now, load.id, begun, prepare_out_);
}

bool Node::on_prepared_loaded(Instant now, RequestId waiter, const Status& status) {
  const auto number = static_cast<std::uint64_t>(waiter);
  if ((number & kPreparedBit) == 0) return false;
  prepare_.on_loaded(now, JobId{number & ~kPreparedBit}, status, prepare_out_);
  return true;
}

}  // namespace tenzro::node
