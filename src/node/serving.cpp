#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/node/node.hpp"

namespace tenzro::node {
namespace {

/// Rows and outputs that a decoded request will need.
std::uint64_t working_bytes(const work::DecodedExec& decoded) {
  std::uint64_t pairs = 0;
  for (const wire::ExecBatch& batch : decoded.request->batches) pairs += batch.rows.size();
  // Below 2^64: the decoder bounds the reply by a message.
  return decoded.input.size() + pairs * decoded.request->width * sizeof(float);
}

}  // namespace

bool Node::is_member(const EndpointId& endpoint) const {
  return view_.providers().contains(crypto::address_of(endpoint));
}

bool Node::may_execute(const EndpointId& endpoint) const {
  if (options_.deny.contains(endpoint)) return false;
  switch (options_.execute) {
    case ExecuteRule::open:
      return true;
    case ExecuteRule::mesh:
      return is_member(endpoint);
    case ExecuteRule::allowlist:
      return options_.execute_allow.contains(endpoint);
    case ExecuteRule::token:
      break;
  }
  return false;
}

bool Node::may_fetch(const EndpointId& endpoint) const {
  if (options_.deny.contains(endpoint)) return false;
  return options_.execute == ExecuteRule::open || is_member(endpoint);
}

std::optional<Error> Node::why_busy(std::uint64_t bytes) const {
  if (is_draining_) {
    return Error{ErrorCode::busy, "", "busy: this node is draining and takes no new work"};
  }
  if (requests_.size() + peer_requests_.size() >= options_.requests_max) {
    return Error{ErrorCode::busy, "",
                 "busy: " + std::to_string(options_.requests_max) +
                     " requests are in progress, the maximum"};
  }
  if (bytes > options_.peer_bytes_max - std::min(peer_bytes_, options_.peer_bytes_max)) {
    return Error{ErrorCode::busy, "",
                 "busy: requests of peers hold " + std::to_string(peer_bytes_) + " of " +
                     std::to_string(options_.peer_bytes_max) + " bytes"};
  }
  return std::nullopt;
}

Node::PeerWait& Node::admit_peer(Instant now, const work::PeerRequest& request) {
  PeerWait& wait = peer_requests_[request.id];
  wait.from = request.from;
  wait.arrived = now;
  wait.bytes = request.bytes.size();
  peer_bytes_ += wait.bytes;
  return wait;
}

void Node::serve_exec(Instant now, work::PeerRequest request, Outbox& out) {
  ++totals_.peer_requests_exec;
  if (options_.execute == ExecuteRule::mesh && !options_.deny.contains(request.from) &&
      !is_member(request.from)) {
    // Not a refusal: the caller's record may be on its way, to a node that has just started.
    ++totals_.peer_refused_busy;
    const Error error{ErrorCode::busy, "", "busy: no record of the caller is known here yet"};
    out.emplace_back(SendReply{request.id, forward::exec_refusal(error)});
    return;
  }
  if (!may_execute(request.from)) {
    ++totals_.peer_refused_forbidden;
    const Error error{ErrorCode::forbidden, "",
                      "this node executes for other endpoints only (holder.execute)"};
    out.emplace_back(SendReply{request.id, forward::exec_refusal(error)});
    return;
  }
  if (const auto error = why_busy(request.bytes.size())) {
    ++totals_.peer_refused_busy;
    out.emplace_back(SendReply{request.id, forward::exec_refusal(*error)});
    return;
  }
  PeerWait& wait = admit_peer(now, request);
  auto serving = std::make_unique<forward::Serving>(
      forward::ServeRequest{.message = std::move(request.bytes),
                            .router = request.from,
                            .profiles = options_.profiles,
                            .arrived = now,
                            .budget_max = options_.forward_deadline},
      ids_);
  forward::Outbox actions;
  serving->start(actions);
  wait.work = std::move(serving);
  for (forward::Action& action : actions) peer_out_.emplace_back(request.id, std::move(action));
}

void Node::on_exec_job(PeerWait& wait, const work::JobResult& result, forward::Outbox& actions) {
  forward::Serving& serving = *std::get<std::unique_ptr<forward::Serving>>(wait.work);
  if (!result) return serving.on_failed(result.error(), actions);
  if (const auto* decoded = std::get_if<work::DecodedExec>(&*result)) {
    const std::uint64_t bytes = working_bytes(*decoded);
    const std::uint64_t room =
        options_.peer_bytes_max - std::min(peer_bytes_, options_.peer_bytes_max);
    if (bytes > room) {
      return serving.on_failed({ErrorCode::busy, "", "busy: memory for peers' rows is short"},
                               actions);
    }
    wait.bytes += bytes;
    peer_bytes_ += bytes;
    serving.on_decoded(*decoded, actions);
  } else if (const auto* experts = std::get_if<work::ExpertsResult>(&*result)) {
    serving.on_experts_done(*experts, actions);
  } else {
    serving.on_signed(std::get<work::SignedExec>(*result), actions);
  }
}

void Node::on_peer_job(Instant now, PeerRequestId request, JobId id, const work::JobResult& result,
                       Outbox& out) {
  const auto it = peer_requests_.find(request);
  if (it == peer_requests_.end()) return;
  if (std::holds_alternative<FrameWait>(it->second.work)) {
    on_frame_job(now, request, id, result, out);
    return;
  }
  forward::Outbox actions;
  on_exec_job(it->second, result, actions);
  for (forward::Action& action : actions) peer_out_.emplace_back(request, std::move(action));
}

void Node::on_peer_lease_answer(PeerRequestId request, const holder::Action& action) {
  const auto it = peer_requests_.find(request);
  if (it == peer_requests_.end()) return;
  const auto* ready = std::get_if<holder::ExpertReady>(&action);
  const auto* unavailable = std::get_if<holder::ExpertUnavailable>(&action);
  forward::Outbox actions;
  if (auto* serving = std::get_if<std::unique_ptr<forward::Serving>>(&it->second.work)) {
    if (ready != nullptr) {
      (*serving)->on_expert_ready(ready->expert, ready->resident, ready->identity, actions);
      touched_peers_.insert(request);
    } else {
      (*serving)->on_expert_unavailable(unavailable->error, actions);
    }
  } else if (auto& execution = std::get<FrameWait>(it->second.work).execution) {
    if (ready != nullptr) {
      execution->on_expert_ready(ready->resident, ready->identity, actions);
    } else {
      execution->on_expert_unavailable(unavailable->error, actions);
    }
  }
  for (forward::Action& each : actions) peer_out_.emplace_back(request, std::move(each));
}

void Node::advance_peer(PeerRequestId request) {
  const auto it = peer_requests_.find(request);
  if (it == peer_requests_.end()) return;
  auto* serving = std::get_if<std::unique_ptr<forward::Serving>>(&it->second.work);
  if (serving == nullptr) return;
  forward::Outbox actions;
  (*serving)->advance(actions);
  for (forward::Action& action : actions) peer_out_.emplace_back(request, std::move(action));
}

void Node::acquire_for_peer(PeerRequestId request, const forward::Acquire& acquire) {
  PeerWait& wait = peer_requests_.at(request);
  auto* serving = std::get_if<std::unique_ptr<forward::Serving>>(&wait.work);
  forward::Execution* execution =
      serving == nullptr ? std::get<FrameWait>(wait.work).execution.get() : nullptr;
  LayerKey layer;
  if (serving != nullptr) {
    layer = (*serving)->layer();
  } else {
    layer = {execution->request().key.model, execution->request().key.layer};
  }
  const Status status = holder_.acquire(lease_of(request), layer, acquire.experts, holder_out_);
  if (status) return;
  forward::Outbox actions;
  if (serving != nullptr) {
    (*serving)->on_failed(status.error(), actions);
  } else {
    execution->on_failed(status.error(), actions);
  }
  for (forward::Action& action : actions) peer_out_.emplace_back(request, std::move(action));
}

void Node::take_peer(Instant now, PeerRequestId request, forward::Action& action, Outbox& out) {
  if (!peer_requests_.contains(request)) return;
  if (auto* run = std::get_if<forward::Run>(&action)) {
    owners_.emplace(run->id, request);
    count_job(now, run->id, run->job);
    out.emplace_back(Run{run->id, std::move(run->job), std::nullopt, request});
  } else if (const auto* acquire = std::get_if<forward::Acquire>(&action)) {
    acquire_for_peer(request, *acquire);
  } else if (const auto* release = std::get_if<forward::Release>(&action)) {
    holder_.release(lease_of(request), release->expert, holder_out_);
  } else if (const auto* metered = std::get_if<forward::Metered>(&action)) {
    meter_.count(now, metered->pairs);
    totals_.token_expert_pairs += metered->pairs;
  } else if (auto* finished = std::get_if<forward::ServingFinished>(&action)) {
    finish_exec(request, *finished, out);
  } else if (const auto* execution = std::get_if<forward::ExecutionFinished>(&action)) {
    finish_frame(request, execution->outcome, out);
  }
}

void Node::finish_exec(PeerRequestId request, forward::ServingFinished& finished, Outbox& out) {
  ++(finished.is_served ? totals_.peer_requests_served : totals_.peer_requests_failed);
  end_peer(request);
  out.emplace_back(SendReply{request, std::move(finished.reply)});
}

void Node::end_peer(PeerRequestId request) {
  const auto it = peer_requests_.find(request);
  if (it == peer_requests_.end()) return;
  peer_bytes_ -= it->second.bytes;
  peer_requests_.erase(it);
  holder_.release_all(lease_of(request), holder_out_);
}

void Node::tick_peers(Instant now) {
  for (auto& [request, wait] : peer_requests_) {
    forward::Outbox actions;
    if (auto* serving = std::get_if<std::unique_ptr<forward::Serving>>(&wait.work)) {
      (*serving)->on_tick(now, actions);
    } else if (auto& execution = std::get<FrameWait>(wait.work).execution) {
      execution->on_tick(now, actions);
    }
    for (forward::Action& action : actions) peer_out_.emplace_back(request, std::move(action));
  }
}

std::optional<Instant> Node::next_peer_deadline() const {
  std::optional<Instant> earliest;
  for (const auto& [request, wait] : peer_requests_) {
    std::optional<Instant> deadline;
    if (const auto* serving = std::get_if<std::unique_ptr<forward::Serving>>(&wait.work)) {
      deadline = (*serving)->next_deadline();
    } else if (const auto& execution = std::get<FrameWait>(wait.work).execution) {
      deadline = execution->next_deadline();
    }
    if (deadline && (!earliest || *deadline < *earliest)) earliest = deadline;
  }
  return earliest;
}

}  // namespace tenzro::node
