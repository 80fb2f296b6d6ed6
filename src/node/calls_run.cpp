#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/node/node.hpp"

namespace tenzro::node {
namespace {

constexpr std::size_t kForwardTimesKept = 1024;
/// Of a reply, about 48 bytes each. A body of 64 MiB has fewer where a token has 256 values or more
/// and eight slots.
constexpr std::uint64_t kRoutedSlotsMax = 2ULL << 20U;

rpc::RoutedTokens to_answer(const routing::Routed& routed) {
  rpc::RoutedTokens tokens{.tokens = routed.tokens, .slots_per_token = routed.slots_per_token};
  tokens.slots.reserve(routed.slots.size());
  for (const routing::Slot& slot : routed.slots) tokens.slots.push_back({slot.expert, slot.weight});
  return tokens;
}

/// Both are 32 bits wide.
Status check_slots(const rpc::RouteCall& call, std::uint32_t top_k, const routing::Router& router) {
  const std::uint64_t slots =
      std::uint64_t{call.hidden.count} * std::min(top_k, router.num_experts());
  if (slots <= kRoutedSlotsMax) return {};
  return fail(ErrorCode::invalid_params, "hidden_states",
              std::to_string(call.hidden.count) + " tokens have " + std::to_string(slots) +
                  " slots; one call may have " + std::to_string(kRoutedSlotsMax));
}

Error width_error(std::string_view field, std::uint32_t given, std::string_view whose,
                  std::uint32_t real) {
  return {ErrorCode::invalid_params, std::string(field),
          std::to_string(given) + " is not the " + std::string(whose) + "'s width, " +
              std::to_string(real)};
}

/// A job's output of one kind, or its error. The kind is known: jobs answer with their own.
template <typename T>
Result<T> output_as(const work::JobResult& result) {
  if (!result) return tl::unexpected<Error>(result.error());
  return std::get<T>(*result);
}

}  // namespace

Result<std::shared_ptr<const work::Gate>> Node::gate_for(const rpc::RouteCall& call) const {
  auto gate = holder_.gate(call.key);
  if (gate == nullptr) {
    return fail(ErrorCode::runtime, "",
                "moe route: gating network for " + call.key.model + " layer " +
                    std::to_string(call.key.layer) + " is not loaded on this host");
  }
  if (gate->router.d_model() != call.d_model) {
    return fail(width_error("d_model", call.d_model, "gate", gate->router.d_model()));
  }
  return gate;
}

Result<std::uint32_t> Node::choose_top_k(const rpc::RouteCall& call,
                                         const routing::Router& router) const {
  if (call.top_k) return *call.top_k;
  if (const auto own = router.default_top_k()) return *own;
  const catalog::Model* model = catalog_.find(call.key.model);
  if (model != nullptr && model->moe) return model->moe->experts_per_token;
  return fail(ErrorCode::invalid_params, "",
              "top_k not given and no catalog MoE shape for model_id: " + echo(call.key.model));
}

Status Node::check_size(const rpc::RouteCall& call, std::uint32_t top_k,
                        const work::Gate& gate) const {
  if (Status status = check_slots(call, top_k, gate.router); !status) return status;
  const std::uint64_t slots = std::uint64_t{std::min(top_k, gate.router.num_experts())} + 1;
  const std::uint64_t width = std::max(gate.expert_width, gate.router.d_model());
  // Below 2^64: tokens and slots are 32 bits wide, and a body holds fewer values than 2^32.
  const std::uint64_t bytes = std::uint64_t{call.hidden.count} * slots * width * sizeof(float);
  if (bytes <= options_.forward_bytes_max) return {};
  return fail(ErrorCode::invalid_params, "hidden_states",
              std::to_string(call.hidden.count) + " tokens with " + std::to_string(slots) +
                  " slots need " + std::to_string(bytes) +
                  " bytes of expert outputs; a forward may take " +
                  std::to_string(options_.forward_bytes_max));
}

void Node::start_route(RequestId request, rpc::RouteCall call, Outbox& out) {
  const auto gate = gate_for(call);
  if (!gate) return reply(request, fail(gate.error()), out);
  const auto top_k = choose_top_k(call, (*gate)->router);
  if (!top_k) return reply(request, fail(top_k.error()), out);
  if (const Status status = check_slots(call, *top_k, (*gate)->router); !status)
    return reply(request, fail(status.error()), out);
  requests_.at(request) = RouteWait{call.key, *top_k};
  const JobId id = ids_.next();
  owners_.emplace(id, request);
  work::RunGate job{.gate = *gate,
                    .profile = options_.profile,
                    .tokens = call.hidden.count,
                    .hidden = std::move(call.hidden.data),
                    .top_k = *top_k};
  if (call.router_hidden) job.router_hidden = std::move(call.router_hidden->data);
  if (call.token_ids) job.token_ids = std::move(*call.token_ids);
  out.emplace_back(Run{id, std::move(job), request});
}

Result<std::unique_ptr<forward::Execution>> Node::make_execution(Instant now, rpc::ExecuteCall call,
                                                                 const EndpointId* router) {
  const work::ExpertFacts* facts = holder_.facts(call.key);
  if (facts == nullptr) {
    return fail(ErrorCode::runtime, "",
                "moe execute: expert " + call.key.model + " l" + std::to_string(call.key.layer) +
                    "/e" + std::to_string(call.key.expert) + " is not loaded on this host");
  }
  if (facts->d_model != call.d_model) {
    return fail(width_error("d_model", call.d_model, "expert", facts->d_model));
  }
  ++totals_.executions;
  forward::ExecuteRequest execute{.key = std::move(call.key),
                                  .d_model = call.d_model,
                                  .token_indices = std::move(call.token_indices),
                                  .is_q8 = call.is_q8,
                                  .carrier = std::move(call.carrier),
                                  .hidden = std::move(call.hidden.data),
                                  .profile = call.profile.value_or(options_.profile),
                                  .deadline = now + options_.forward_deadline};
  // A receipt of version 2 names who asked; only a connection proves that.
  if (router != nullptr && call.nonce) {
    execute.terms = work::ReceiptTerms{*call.nonce, *router, execute.profile};
  }
  return std::make_unique<forward::Execution>(std::move(execute), ids_);
}

void Node::start_execute(Instant now, RequestId request, rpc::ExecuteCall call, Outbox& out) {
  auto execution = make_execution(now, std::move(call), nullptr);
  if (!execution) return reply(request, fail(execution.error()), out);
  forward::Outbox actions;
  (*execution)->start(actions);
  requests_.at(request) = ExecuteWait{std::move(*execution)};
  queue_forward(request, std::move(actions));
}

void Node::on_request_job(Instant now, RequestId request, JobId id, const work::JobResult& result,
                          Outbox& out) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  if (const auto* route = std::get_if<RouteWait>(&it->second)) {
    finish_route(request, RouteWait(*route), result, out);
  } else if (auto* wait = std::get_if<ForwardWait>(&it->second)) {
    forward::Outbox actions;
    wait->flight->on_job_done(now, id, result, actions);
    queue_forward(request, std::move(actions));
  } else if (auto* execute = std::get_if<ExecuteWait>(&it->second)) {
    on_execute_job(request, *execute->execution, result);
  }
}

void Node::on_execute_job(RequestId request, forward::Execution& execution,
                          const work::JobResult& result) {
  forward::Outbox actions;
  const bool is_receipt = result && std::holds_alternative<work::SignedReceipt>(*result);
  if (!result) {
    execution.on_failed(result.error(), actions);
  } else if (is_receipt) {
    execution.on_signed(std::get<work::SignedReceipt>(*result), actions);
  } else {
    execution.on_experts_done(std::get<work::ExpertsResult>(*result), actions);
  }
  queue_forward(request, std::move(actions));
}

void Node::take_forward(Instant now, RequestId request, forward::Action& action, Outbox& out) {
  if (auto* run = std::get_if<forward::Run>(&action)) {
    owners_.emplace(run->id, request);
    count_job(now, run->id, run->job);
    out.emplace_back(Run{run->id, std::move(run->job), request});
  } else if (auto* send = std::get_if<forward::SendCall>(&action)) {
    callers_.emplace(send->id, request);
    out.emplace_back(std::move(*send));
  } else if (auto* post = std::get_if<forward::SendHttpCall>(&action)) {
    callers_.emplace(post->id, request);
    out.emplace_back(std::move(*post));
  } else if (const auto* cancel = std::get_if<forward::CancelCall>(&action)) {
    callers_.erase(cancel->id);
    out.emplace_back(*cancel);
  } else if (const auto* acquire = std::get_if<forward::Acquire>(&action)) {
    const auto it = requests_.find(request);
    if (it == requests_.end()) return;
    LayerKey layer;
    if (const auto* wait = std::get_if<ForwardWait>(&it->second))
      layer = wait->flight->request().layer;
    if (const auto* wait = std::get_if<ExecuteWait>(&it->second)) {
      const ExpertKey& key = wait->execution->request().key;
      layer = {key.model, key.layer};
    }
    const Status status = holder_.acquire(lease_of(request), layer, acquire->experts, holder_out_);
    if (!status) {
      abandon_forward(now, it->second, out);
      end_request(request, fail(status.error()), out);
    }
  } else if (const auto* release = std::get_if<forward::Release>(&action)) {
    holder_.release(lease_of(request), release->expert, holder_out_);
  } else if (const auto* metered = std::get_if<forward::Metered>(&action)) {
    meter_.count(now, metered->pairs);
    totals_.token_expert_pairs += metered->pairs;
  } else if (const auto* forward = std::get_if<forward::ForwardFinished>(&action)) {
    finish_forward(now, request, forward->outcome, out);
  } else if (const auto* execution = std::get_if<forward::ExecutionFinished>(&action)) {
    finish_execute(request, execution->outcome, out);
  }
}

void Node::finish_route(RequestId request, const RouteWait& wait, const work::JobResult& result,
                        Outbox& out) {
  const auto gated = output_as<work::GateResult>(result);
  if (!gated) return reply(request, fail(gated.error()), out);
  reply(request, rpc::RouteAnswer{wait.key, wait.top_k, to_answer(gated->routed)}, out);
}

void Node::finish_forward(Instant now, RequestId request,
                          const Result<forward::ForwardOutcome>& outcome, Outbox& out) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  const auto& wait = std::get<ForwardWait>(it->second);
  count(wait.flight->tally());
  if (!outcome) {
    ++totals_.forwards_failed;
    end_request(request, fail(outcome.error()), out);
    return;
  }
  const auto elapsed = static_cast<std::uint64_t>((now - wait.started).count());
  if (forward_us_.size() < kForwardTimesKept) {
    forward_us_.push_back(elapsed);
  } else {
    forward_us_[forward_us_next_++ % kForwardTimesKept] = elapsed;
  }
  const forward::Request& asked = wait.flight->request();
  rpc::ForwardAnswer answer{.key = asked.layer,
                            .d_model = asked.d_model,
                            .top_k = wait.top_k,
                            .tokens = asked.tokens,
                            .batches = outcome->tally.batches,
                            .replans = outcome->tally.replans,
                            .transports_local = outcome->tally.local,
                            .transports_iroh = outcome->tally.iroh,
                            .transports_http = outcome->tally.http,
                            .routed = to_answer(outcome->routed),
                            .outputs = outcome->outputs,
                            .carrier = outcome->is_q8_carrier ? "q8" : "dense",
                            .profile = std::string(compute::name_of(asked.profile))};
  for (const forward::Missing& gap : outcome->missing) {
    answer.missing.push_back({{asked.layer.layer, gap.expert}, gap.tokens});
  }
  end_request(request, std::move(answer), out);
}

void Node::finish_execute(RequestId request, const Result<forward::ExecutionOutcome>& outcome,
                          Outbox& out) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  if (!outcome) {
    ++totals_.executions_failed;
    end_request(request, fail(outcome.error()), out);
    return;
  }
  const forward::ExecuteRequest& asked = std::get<ExecuteWait>(it->second).execution->request();
  end_request(request,
              rpc::ExecuteAnswer{asked.key, asked.d_model, asked.token_indices, outcome->outputs,
                                 outcome->receipt_json, outcome->receipt2_json},
              out);
}

void Node::end_request(RequestId request, Result<rpc::Answer> answer, Outbox& out) {
  holder_.release_all(lease_of(request), holder_out_);
  reply(request, std::move(answer), out);
}

}  // namespace tenzro::node
