#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/node/node.hpp"
#include "tenzro/wire/uri.hpp"

#include "repairs.hpp"

namespace tenzro::node {
namespace {

/// `expert load: …` and `gate load: …` are what clients match on; a full disk or a full queue says
/// so itself.
Error load_error(bool is_expert, const Error& error) {
  const bool is_content = error.code == ErrorCode::runtime || error.code == ErrorCode::io;
  const ErrorCode code = is_content ? ErrorCode::runtime : error.code;
  return {code, "", (is_expert ? "expert load: " : "gate load: ") + error.message()};
}

}  // namespace

void Node::start_load(RequestId request, LayerKey layer, std::optional<ExpertIndex> expert,
                      holder::LoadSource source, Outbox& out) {
  BlobSearch search;
  if (source.uri) {
    const auto parsed = wire::parse_blob_uri(*source.uri);
    if (!parsed) {
      reply(request,
            fail(ErrorCode::invalid_params, "", "invalid uri: " + parsed.error().message()), out);
      return;
    }
    search = {.hash = parsed->hash, .hint = parsed->hint, .is_gate = !expert};
    if (expert) search.expert = {layer.model, layer.layer, *expert};
  }
  if (source.is_inline) {
    if (source.uri) source.uri_hash = search.hash;
    begin_load(request, layer, expert, std::move(source), out);
    return;
  }
  requests_.at(request) = UriLoad{std::move(layer), expert, *source.uri, std::move(search)};
  find_load(request, out);
}

void Node::find_load(RequestId request, Outbox& out) {
  const auto& load = std::get<UriLoad>(requests_.at(request));
  if (!load.expert) return read_blob(request, load.search.hash, 0, out);
  const JobId id = ids_.next();
  owners_.emplace(id, request);
  // Whether it is there, and how large: the holder reads it when there is room.
  out.emplace_back(Store{id, work::ReadBlobRange{.hash = load.search.hash}});
}

bool Node::fetch_lost(Instant now, RequestId request, Outbox& out) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return false;
  auto* wait = std::get_if<CoreWait>(&it->second);
  if (wait == nullptr || !wait->load || wait->load->search.was_fetched) return false;
  UriLoad load = std::move(*wait->load);
  it->second = std::move(load);
  start_fetch(now, request, out);
  return true;
}

void Node::begin_load(RequestId request, const LayerKey& layer, std::optional<ExpertIndex> expert,
                      holder::LoadSource source, Outbox& out) {
  Waiting& waiting = requests_.at(request);
  if (auto* load = std::get_if<UriLoad>(&waiting)) {
    UriLoad kept = std::move(*load);
    waiting = CoreWait{std::move(kept)};
  } else {
    waiting = CoreWait{};
  }
  const Status status = expert ? holder_.load_expert(request, {layer.model, layer.layer, *expert},
                                                     std::move(source), holder_out_)
                               : holder_.load_gate(request, layer, std::move(source), holder_out_);
  if (!status) reply(request, fail(load_error(expert.has_value(), status.error())), out);
}

void Node::on_request_store(Instant now, RequestId request, const work::StoreResult& result,
                            Outbox& out) {
  const auto it = requests_.find(request);
  if (it == requests_.end() || on_drop_store(request, result, out)) return;
  if (!result) return on_request_store_failed(now, request, result.error(), out);
  if (std::holds_alternative<PublishWait>(it->second)) {
    const auto& published = std::get<work::Published>(*result);
    reply(request, rpc::PublishBlobAnswer{published.hash, published.size_bytes}, out);
  } else if (std::holds_alternative<FetchWait>(it->second)) {
    // Whoever fetches by name wants it here from now on.
    if (const auto hash = fetched_for_.find(request); hash != fetched_for_.end())
      fetched_.at(hash->second).is_kept = true;
    reply(request, rpc::FetchBlobAnswer{std::get<work::ReadBytes>(*result).bytes}, out);
  } else if (std::holds_alternative<UriLoad>(it->second)) {
    on_load_store(request, *result, out);
  }
}

void Node::on_load_store(RequestId request, const work::StoreOutput& result, Outbox& out) {
  const UriLoad wait = std::get<UriLoad>(requests_.at(request));
  // Somebody else may have taken it meanwhile.
  if (!is_still_wanted(request))
    return reply(request, fail(ErrorCode::cancelled, "", "no copy is missing any more"), out);
  holder::LoadSource source{.uri = wait.uri, .uri_hash = wait.search.hash, .is_inline = false};
  if (const auto* found = std::get_if<work::BlobRange>(&result)) {
    const std::uint64_t most = wait.search.bytes_max;
    if (most != 0 && found->size_bytes > most) {
      const std::string sizes =
          std::to_string(found->size_bytes) + " bytes, more than the " + std::to_string(most);
      return refuse_fetch(request,
                          {ErrorCode::infrastructure, "blob " + to_hex(wait.search.hash),
                           "has " + sizes + " wanted"},
                          out);
    }
    source.stored_bytes = found->size_bytes;
  } else {
    source.blob = std::get<work::ReadBytes>(result).bytes;
  }
  begin_load(request, wait.layer, wait.expert, std::move(source), out);
}

void Node::on_request_store_failed(Instant now, RequestId request, const Error& error,
                                   Outbox& out) {
  const Waiting& waiting = requests_.at(request);
  if (std::holds_alternative<PublishWait>(waiting)) {
    const std::string text = "blob publish: " + error.message();
    if (error.code == ErrorCode::invalid_params) return reply(request, fail(error), out);
    return reply(request, fail(ErrorCode::infrastructure, "", text), out);
  }
  const auto* load = std::get_if<UriLoad>(&waiting);
  const BlobSearch& search = load != nullptr ? load->search : std::get<FetchWait>(waiting).search;
  if (error.code == ErrorCode::invalid_params) return reply(request, fail(error), out);
  if (error.code == ErrorCode::not_found && !search.was_fetched)
    return start_fetch(now, request, out);
  refuse_fetch(request, error, out);
}

void Node::on_expert_changed(Instant now, const holder::ExpertChanged& change) {
  const shards::Holding* known = view_.holding(about_.provider, change.key);
  const bool was_held = known != nullptr;
  const shards::Holding before = was_held ? *known : shards::Holding{};
  bool is_same_blob = false;
  if (change.change == holder::Change::withdrawn) {
    view_.withdraw(about_.provider, change.key);
    tier_news_.on_withdrawn(change.key);
  } else {
    shards::Holding holding{.is_warm = change.change == holder::Change::held_in_memory};
    if (const auto held = holder_.expert(change.key)) {
      const work::ExpertFacts& facts = held->row->facts;
      holding.types = {facts.gate_type, facts.up_type, facts.down_type};
      holding.blob = held->row->hash;
      // In its bare form, as others see it, whichever URI it was loaded by.
      if (change.source_uri) holding.blob_uri = wire::format_blob_uri(holding.blob);
    }
    is_same_blob = holding.blob == before.blob && holding.blob_uri == before.blob_uri;
    view_.declare(about_.provider, change.key, std::move(holding));
  }
  repairs_->held_bytes.reset();
  const bool is_warm = change.change == holder::Change::held_in_memory;
  if (was_held && is_same_blob) {
    // Only its tier changed: told with the others of this heartbeat.
    if (before.is_warm != is_warm) on_tier_changed(now, change.key, is_warm);
  } else {
    update_roles();
  }
}

void Node::update_roles() {
  shards::Provider self{.address = about_.provider, .has_gpu = about_.has_gpu};
  self.is_draining = is_draining_;
  self.endpoint_id = to_hex(about_.endpoint_id);
  self.endpoint_key = about_.endpoint_id;
  self.addresses = quic_addresses_;
  self.profiles = 0;
  for (const compute::Profile profile : options_.profiles)
    self.profiles = static_cast<std::uint8_t>(self.profiles | 1U << static_cast<unsigned>(profile));
  self.price_per_input_token = options_.price_per_input_token;
  self.minimum_price = options_.minimum_price;
  if (!about_.http_endpoint.empty()) self.http_endpoint = about_.http_endpoint;
  const holder::Counters& counters = holder_.counters();
  if (counters.memory_experts + counters.disk_experts > 0)
    self.roles.insert(shards::Role::expert_holder);
  if (counters.gate_bytes > 0) self.roles.insert(shards::Role::router);
  self.roles.insert(options_.roles.begin(), options_.roles.end());
  if (const auto known = view_.providers().find(self.address); known != view_.providers().end()) {
    self.committed_tps = known->second.committed_tps;
    self.repair_free_bytes = known->second.repair_free_bytes;
    self.repair_models = known->second.repair_models;
    self.expert_bytes = known->second.expert_bytes;
  }
  view_.set_provider(self);
  if (!facts_due_) facts_due_ = facts_made_;  // as soon as may be
}

void Node::on_lease_answer(Instant now, const holder::Action& action) {
  const auto* ready = std::get_if<holder::ExpertReady>(&action);
  const auto* unavailable = std::get_if<holder::ExpertUnavailable>(&action);
  TENZRO_ASSERT(ready != nullptr || unavailable != nullptr);
  const holder::LeaseId lease = ready != nullptr ? ready->lease : unavailable->lease;
  if (const auto peer = peer_of(lease)) return on_peer_lease_answer(*peer, action);
  const RequestId request{static_cast<std::uint64_t>(lease)};
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  forward::Outbox actions;
  if (auto* wait = std::get_if<ForwardWait>(&it->second)) {
    if (ready != nullptr) {
      wait->flight->on_expert_ready(now, ready->expert, ready->resident, ready->identity.facts,
                                    actions);
    } else {
      wait->flight->on_expert_unavailable(now, unavailable->expert, unavailable->error, actions);
    }
    touched_.insert(request);
  } else if (auto* execute = std::get_if<ExecuteWait>(&it->second)) {
    if (ready != nullptr) {
      execute->execution->on_expert_ready(ready->resident, ready->identity, actions);
    } else {
      execute->execution->on_expert_unavailable(unavailable->error, actions);
    }
  }
  queue_forward(request, std::move(actions));
}

void Node::take_holder(Instant now, holder::Action& action, Outbox& out) {
  if (auto* run = std::get_if<holder::Run>(&action)) {
    owners_.emplace(run->id, Core::holder);
    out.emplace_back(Run{run->id, std::move(run->job)});
  } else if (auto* store = std::get_if<holder::Store>(&action)) {
    owners_.emplace(store->id, Core::holder);
    out.emplace_back(Store{store->id, std::move(store->op)});
  } else if (const auto* expert = std::get_if<holder::ExpertChanged>(&action)) {
    on_expert_changed(now, *expert);
  } else if (std::holds_alternative<holder::GateChanged>(action)) {
    update_roles();
  } else if (const auto* loaded = std::get_if<holder::ExpertLoaded>(&action)) {
    on_expert_loaded(now, *loaded, out);
  } else if (const auto* gate = std::get_if<holder::GateLoaded>(&action)) {
    on_gate_loaded(now, *gate, out);
  } else if (const auto* unloaded = std::get_if<holder::Unloaded>(&action)) {
    on_unloaded(*unloaded, out);
  } else if (const auto* damaged = std::get_if<holder::BlobDamaged>(&action)) {
    out.emplace_back(Notice{"blob " + to_hex(damaged->hash) + " cannot be used: " + damaged->what});
  } else {
    on_lease_answer(now, action);
  }
}

void Node::on_expert_loaded(Instant now, const holder::ExpertLoaded& loaded, Outbox& out) {
  if (on_prepared_loaded(now, loaded.waiter, loaded.status)) return;
  if (loaded.is_blob_lost && fetch_lost(now, loaded.waiter, out)) return;
  if (!loaded.status) {
    reply(loaded.waiter, fail(load_error(true, loaded.status.error())), out);
    return;
  }
  const auto view = holder_.expert(loaded.key);
  TENZRO_ASSERT(view.has_value());
  reply(loaded.waiter, expert_row(*view), out);
}

void Node::on_gate_loaded(Instant now, const holder::GateLoaded& loaded, Outbox& out) {
  if (on_prepared_loaded(now, loaded.waiter, loaded.status)) return;
  if (loaded.is_blob_lost && fetch_lost(now, loaded.waiter, out)) return;
  if (!loaded.status) {
    reply(loaded.waiter, fail(load_error(false, loaded.status.error())), out);
    return;
  }
  const work::HoldingRow* row = holder_.gate_row(loaded.key);
  TENZRO_ASSERT(row != nullptr);
  reply(loaded.waiter, gate_row(*row), out);
}

void Node::on_unloaded(const holder::Unloaded& unloaded, Outbox& out) {
  if (!unloaded.removed) {
    reply(unloaded.waiter, fail(unloaded.removed.error()), out);
    return;
  }
  reply(unloaded.waiter, rpc::UnloadAnswer{unloaded.layer, unloaded.expert, *unloaded.removed},
        out);
}

}  // namespace tenzro::node
