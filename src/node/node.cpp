#include "tenzro/node/node.hpp"

#include <utility>

#include "tenzro/wire/uri.hpp"

#include "presence.hpp"
#include "repairs.hpp"

namespace tenzro::node {
namespace {

/// Calls that bring memory with them or take time; the others are answered whatever the load
/// (unloads included: they free).
bool is_work(const rpc::Call& call) {
  return std::holds_alternative<rpc::ExpertLoadCall>(call) ||
         std::holds_alternative<rpc::GateLoadCall>(call) ||
         std::holds_alternative<rpc::RouteCall>(call) ||
         std::holds_alternative<rpc::ForwardCall>(call) ||
         std::holds_alternative<rpc::ExecuteCall>(call) ||
         std::holds_alternative<rpc::PrepareExpertsCall>(call) ||
         std::holds_alternative<rpc::PrepareResumeCall>(call) ||
         std::holds_alternative<rpc::PublishBlobCall>(call) ||
         std::holds_alternative<rpc::FetchBlobCall>(call);
}

template <typename LoadCall>
holder::LoadSource load_source(LoadCall& call) {
  return {.blob = std::move(call.blob), .uri = std::move(call.uri), .is_inline = call.has_inline};
}

}  // namespace

Node::Node(const Options& options, About about, const catalog::Catalog& catalog, Prng& prng)
    : options_(options),
      about_(std::move(about)),
      catalog_(catalog),
      prng_(prng),
      holder_(options.holder, ids_),
      view_(shards::Options{}),
      standings_(options.ledger),
      mesh_{.jobs = ids_,
            .calls = call_ids_,
            .view = view_,
            .standings = standings_,
            .facts = facts_,
            .prng = prng,
            .self = about_.provider,
            .router = about_.endpoint_id,
            .limits = options.forward},
      prepare_(options.prepare, ids_, call_ids_, catalog, prng),
      tier_news_(options.heartbeat),
      fetches_(options.fetch, call_ids_, ids_),
      serving_(options.serving, ids_) {
  mesh_.limits.hot_threshold_tps = options.policy.hot_threshold_tps;
  repairs_ = std::make_unique<Repairs>(options_, about_.provider);
  update_roles();
}

Node::~Node() = default;

void Node::on_index(Instant now, const std::vector<work::HoldingRow>& rows, Outbox& out) {
  started_ = now;
  holder_.on_index(rows, holder_out_);
  settle(now, out);
}

void Node::on_job_log(Instant now, const std::vector<work::LoggedJob>& jobs, Outbox& out) {
  prepare_.on_history(now, jobs, prepare_out_);
  settle(now, out);
}

void Node::on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded,
                         Outbox& out) {
  if (!prepare_.on_downloaded(now, call, downloaded, prepare_out_))
    fetches_.on_downloaded(now, call, downloaded, fetch_out_);
  settle(now, out);
}

bool Node::admits(RequestId request, const rpc::Call& call, Outbox& out) {
  if (!is_work(call)) return true;
  // What peers without QUIC ask for comes as a call, too.
  const bool is_for_peers = std::holds_alternative<rpc::ExecuteCall>(call) && !is_leaving_;
  if (is_draining_ && !is_for_peers) {
    reply(request,
          fail(ErrorCode::infrastructure, "", "this node is draining and takes no new work"), out);
    return false;
  }
  // The request itself is counted.
  if (requests_.size() + peer_requests_.size() > options_.requests_max) {
    ++totals_.calls_refused_busy;
    reply(request,
          fail(ErrorCode::busy, "",
               "busy: " + std::to_string(options_.requests_max) +
                   " requests are in progress, the maximum"),
          out);
    return false;
  }
  return true;
}

struct Node::Dispatcher {
  Node& node;
  Instant now;
  RequestId request{};
  Outbox& out;

  void answer(Result<rpc::Answer> result) { node.reply(request, std::move(result), out); }

  void operator()(const rpc::ShardMapCall& call) { answer(node.shard_map(now, call)); }

  void operator()(const rpc::PlanDispatchCall& call) { answer(node.plan_dispatch(now, call)); }

  void operator()(const rpc::ReplicationPolicyCall& /*call*/) { answer(node.options_.policy); }

  void operator()(const rpc::CatalogShapeCall& call) { answer(node.catalog_shape(call)); }

  void operator()(const rpc::ModelMetadataCall& call) { answer(node.model_metadata(call)); }

  void operator()(const rpc::ExpertStatusCall& /*call*/) { answer(node.expert_status(now)); }

  void operator()(const rpc::NodeStatusCall& /*call*/) { answer(node.node_status(now)); }

  void operator()(const rpc::ListProvidersCall& /*call*/) { answer(node.list_providers(now)); }

  void operator()(rpc::ExpertLoadCall& call) {
    node.start_load(request, {call.key.model, call.key.layer}, call.key.expert, load_source(call),
                    out);
  }

  void operator()(rpc::GateLoadCall& call) {
    node.start_load(request, call.key, std::nullopt, load_source(call), out);
  }

  void operator()(const rpc::ExpertUnloadCall& call) {
    node.holder_.unload_expert(request, call.key, node.holder_out_);
  }

  void operator()(const rpc::GateUnloadCall& call) {
    node.holder_.unload_gate(request, call.key, node.holder_out_);
  }

  void operator()(rpc::RouteCall& call) { node.start_route(request, std::move(call), out); }

  void operator()(rpc::ForwardCall& call) {
    node.start_forward(now, request, std::move(call), out);
  }

  void operator()(rpc::ExecuteCall& call) {
    node.start_execute(now, request, std::move(call), out);
  }

  void operator()(rpc::PrepareExpertsCall& call) {
    node.prepare_.start(now, request, std::move(call), node.prepare_out_);
  }

  void operator()(const rpc::PrepareStatusCall& call) {
    auto status = node.prepare_.status(now, call.job_id, call.is_summary);
    if (!status) return answer(fail(status.error()));
    answer(std::move(*status));
  }

  void operator()(const rpc::PrepareListCall& /*call*/) {
    answer(rpc::PrepareListAnswer{node.prepare_.list(now)});
  }

  void operator()(const rpc::PrepareCancelCall& call) {
    auto cancelled = node.prepare_.cancel(now, call.job_id, node.prepare_out_);
    if (!cancelled) return answer(fail(cancelled.error()));
    answer(rpc::PrepareCancelAnswer{call.job_id, *cancelled});
  }

  void operator()(const rpc::PrepareResumeCall& call) {
    node.prepare_.resume(now, request, call.job_id, node.prepare_out_);
  }

  void operator()(rpc::PublishBlobCall& call) {
    node.requests_.at(request) = PublishWait{};
    const JobId id = node.ids_.next();
    node.owners_.emplace(id, request);
    out.emplace_back(Store{id, work::PublishBlob{std::move(call.bytes)}});
  }

  void operator()(const rpc::FetchBlobCall& call) {
    const auto uri = wire::parse_blob_uri(call.uri);
    if (!uri)
      return answer(fail(ErrorCode::invalid_params, "", "invalid uri: " + uri.error().message()));
    node.requests_.at(request) = FetchWait{{.hash = uri->hash, .hint = uri->hint}};
    node.read_blob(request, uri->hash, node.options_.fetch_bytes_max, out);
  }

  void operator()(const rpc::EndpointInfoCall& /*call*/) {
    answer(rpc::EndpointInfoAnswer{node.about_.endpoint_id, node.about_.alpns});
  }

  void operator()(const rpc::EndpointIdCall& /*call*/) {
    answer(rpc::EndpointIdAnswer{node.about_.endpoint_id});
  }

  void operator()(const rpc::AlpnListCall& /*call*/) {
    answer(rpc::AlpnListAnswer{node.about_.alpns});
  }

  void operator()(const rpc::NodeDrainCall& call) {
    const Duration limit =
        call.limit_s ? Duration(std::chrono::seconds(*call.limit_s)) : node.options_.drain_max;
    node.begin_drain(now, limit);
    answer(rpc::NodeDrainAnswer{});
  }

  void operator()(const rpc::DiscoverCall& /*call*/) {
    answer(fail(ErrorCode::internal, "", "rpc.discover is answered before the node"));
  }
};

void Node::on_call(Instant now, RequestId request, rpc::Call call, Outbox& out) {
  ++totals_.calls;
  requests_.emplace(request, CoreWait{});
  if (!admits(request, call, out)) return;
  std::visit(Dispatcher{*this, now, request, out}, call);
  settle(now, out);
}

void Node::on_cancel(Instant now, RequestId request, Outbox& out) {
  drop_request(now, request, out);
  settle(now, out);
}

void Node::drop_request(Instant now, RequestId request, Outbox& out) {
  auto cancelled = requests_.extract(request);
  if (!cancelled) return;
  abandon_forward(now, cancelled.mapped(), out);
  fetches_.on_cancel(now, request, fetch_out_);
  let_go_of_fetched(request, out);
  holder_.release_all(lease_of(request), holder_out_);
}

void Node::on_job_done(Instant now, JobId id, const work::JobResult& result, Outbox& out) {
  if (const auto job = expert_jobs_.extract(id)) service_.on_end(now, result ? job.mapped() : 0);
  const auto owner = owners_.extract(id);
  if (!owner) return;
  if (const auto* request = std::get_if<RequestId>(&owner.mapped())) {
    on_request_job(now, *request, id, result, out);
  } else if (const auto* peer = std::get_if<PeerRequestId>(&owner.mapped())) {
    on_peer_job(now, *peer, id, result, out);
  } else if (std::get<Core>(owner.mapped()) == Core::holder) {
    holder_.on_job_done(id, result, holder_out_);
  } else {
    prepare_.on_job_done(now, id, result, prepare_out_);
  }
  settle(now, out);
}

void Node::on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out) {
  const auto owner = owners_.extract(id);
  if (!owner) return;
  if (const auto* request = std::get_if<RequestId>(&owner.mapped())) {
    on_request_store(now, *request, result, out);
  } else {
    on_core_store(now, std::get<Core>(owner.mapped()), id, result);
  }
  settle(now, out);
}

void Node::on_core_store(Instant now, Core core, JobId id, const work::StoreResult& result) {
  switch (core) {
    case Core::holder:
      return holder_.on_store_done(id, result, holder_out_);
    case Core::prepare:
      return prepare_.on_store_done(now, id, result, prepare_out_);
    case Core::fetch:
      return fetches_.on_store_done(now, id, result, fetch_out_);
    case Core::serving:
      return serving_.on_store_done(id, result, serving_out_);
  }
}

void Node::on_tick(Instant now, Outbox& out) {
  announce_facts(now);
  if (presence_ != nullptr) presence_->on_tick(now, out);
  fetches_.on_tick(now, fetch_out_);
  prepare_.on_tick(now, prepare_out_);
  for (auto& [request, waiting] : requests_) {
    forward::Outbox actions;
    if (auto* wait = std::get_if<ForwardWait>(&waiting)) {
      wait->flight->on_tick(now, actions);
    } else if (auto* execute = std::get_if<ExecuteWait>(&waiting)) {
      execute->execution->on_tick(now, actions);
    }
    queue_forward(request, std::move(actions));
  }
  tick_peers(now);
  tick_repairs(now, out);
  tick_drain(now, out);
  settle(now, out);
}

std::optional<Instant> Node::next_deadline() const {
  std::optional<Instant> earliest = next_peer_deadline();
  const auto consider = [&](std::optional<Instant> deadline) {
    if (deadline && (!earliest || *deadline < *earliest)) earliest = deadline;
  };
  consider(fetches_.next_deadline());
  consider(prepare_.next_deadline());
  consider(next_mesh_deadline());
  consider(next_repair_deadline());
  if (drain_ && !drain_->is_over) consider(drain_->look_at);
  for (const auto& [request, waiting] : requests_) {
    if (const auto* wait = std::get_if<ForwardWait>(&waiting))
      consider(wait->flight->next_deadline());
    if (const auto* wait = std::get_if<ExecuteWait>(&waiting))
      consider(wait->execution->next_deadline());
  }
  return earliest;
}

void Node::count_job(Instant now, JobId id, const work::Job& job) {
  const auto* experts = std::get_if<work::RunExperts>(&job);
  if (experts == nullptr) return;
  std::uint64_t rows = 0;
  for (const auto& batch : experts->batches) rows += batch.rows.size();
  expert_jobs_.emplace(id, rows);
  service_.on_begin(now);
}

void Node::set_memory_budget(Instant now, std::uint64_t bytes, Outbox& out) {
  holder_.set_memory_budget(bytes, holder_out_);
  settle(now, out);
}

void Node::queue_forward(RequestId request, forward::Outbox actions) {
  for (forward::Action& action : actions) forward_out_.emplace_back(request, std::move(action));
}

void Node::settle(Instant now, Outbox& out) {
  hear_of_peers(now);
  // Ends: a core's action either leaves the node or moves a request or a holding forward, and those
  // only move forward.
  while (!holder_out_.empty() || !forward_out_.empty() || !prepare_out_.empty() ||
         !fetch_out_.empty() || !serving_out_.empty() || !peer_out_.empty() || !touched_.empty() ||
         !touched_peers_.empty()) {
    for (holder::Action& action : std::exchange(holder_out_, {})) take_holder(now, action, out);
    for (prepare::Action& action : std::exchange(prepare_out_, {})) take_prepare(now, action, out);
    for (fetch::Action& action : std::exchange(fetch_out_, {})) take_fetch(action, out);
    for (fetch::ServingAction& action : std::exchange(serving_out_, {})) take_serving(action, out);
    for (auto& [request, action] : std::exchange(forward_out_, {}))
      take_forward(now, request, action, out);
    for (auto& [request, action] : std::exchange(peer_out_, {}))
      take_peer(now, request, action, out);
    if (!holder_out_.empty() || !forward_out_.empty() || !peer_out_.empty()) continue;
    // All that became ready together runs as one job.
    for (const RequestId request : std::exchange(touched_, {})) advance_forward(request);
    for (const PeerRequestId request : std::exchange(touched_peers_, {})) advance_peer(request);
    on_own_answers(now, out);
  }
  on_own_answers(now, out);
  announce_facts(now);
}

void Node::reply(RequestId request, Result<rpc::Answer> answer, Outbox& out) {
  if (requests_.erase(request) == 0) return;  // cancelled, or answered already
  if (is_own(request)) {
    repairs_->answers.emplace_back(request, std::move(answer));
  } else {
    out.emplace_back(Reply{request, std::move(answer)});
  }
  let_go_of_fetched(request, out);
}

}  // namespace tenzro::node
