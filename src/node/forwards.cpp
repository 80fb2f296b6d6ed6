#include "tenzro/node/node.hpp"

namespace tenzro::node {
namespace {

/// What a router draws holders by: its own number for the request, so that two routers differ.
std::uint64_t draw_number(RequestId request, const ProviderAddress& self) {
  std::uint64_t salt = 0;
  for (std::size_t i = 0; i < sizeof(salt); ++i) salt |= std::uint64_t{self[i]} << (8 * i);
  return salt ^ static_cast<std::uint64_t>(request);
}

forward::Carrier to_carrier(rpc::CarrierChoice choice) {
  switch (choice) {
    case rpc::CarrierChoice::dense:
      return forward::Carrier::dense;
    case rpc::CarrierChoice::q8:
      return forward::Carrier::q8;
    case rpc::CarrierChoice::automatic:
      break;
  }
  return forward::Carrier::automatic;
}

}  // namespace

void Node::start_forward(Instant now, RequestId request, rpc::ForwardCall call, Outbox& out) {
  view_.set_rate(about_.provider, meter_.rate(now));
  rpc::RouteCall& route = call.route;
  const auto gate = gate_for(route);
  if (!gate) return reply(request, fail(gate.error()), out);
  const auto top_k = choose_top_k(route, (*gate)->router);
  if (!top_k) return reply(request, fail(top_k.error()), out);
  if (auto status = check_size(route, *top_k, **gate); !status)
    return reply(request, fail(status.error()), out);
  ++totals_.forwards;
  const rpc::CarrierChoice carrier = call.carrier.value_or(options_.carrier);
  forward::Request forward{.number = draw_number(request, about_.provider),
                           .layer = route.key,
                           .tokens = route.hidden.count,
                           .d_model = route.d_model,
                           .hidden = std::move(route.hidden.data),
                           .top_k = *top_k,
                           .allow_cold = call.allow_cold,
                           .allow_partial = call.allow_partial,
                           .carrier = to_carrier(carrier),
                           .profile = call.profile.value_or(options_.profile),
                           .min_kept_mass = options_.min_kept_mass,
                           .deadline = now + options_.forward_deadline};
  if (route.router_hidden) forward.router_hidden = std::move(route.router_hidden->data);
  if (route.token_ids) forward.token_ids = std::move(*route.token_ids);
  auto flight = std::make_unique<forward::Flight>(std::move(forward), *gate, mesh_);
  forward::Outbox actions;
  flight->start(now, actions);
  requests_.at(request) = ForwardWait{std::move(flight), now, *top_k};
  queue_forward(request, std::move(actions));
}

void Node::advance_forward(RequestId request) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  auto* wait = std::get_if<ForwardWait>(&it->second);
  if (wait == nullptr) return;
  forward::Outbox actions;
  wait->flight->advance(actions);
  queue_forward(request, std::move(actions));
}

void Node::count(const forward::Tally& tally) {
  totals_.replans += tally.replans;
  totals_.batches_local += tally.local;
  totals_.batches_iroh += tally.iroh;
  totals_.batches_http += tally.http;
  totals_.hedges += tally.hedges;
  totals_.failovers += tally.failovers;
  totals_.peer_failures += tally.failures;
  totals_.peer_busy += tally.busy;
}

void Node::abandon_forward(Instant now, Waiting& waiting, Outbox& out) {
  auto* wait = std::get_if<ForwardWait>(&waiting);
  if (wait == nullptr) return;
  forward::Outbox actions;
  wait->flight->cancel(now, actions);
  for (const forward::Action& action : actions) {
    const auto& cancel = std::get<forward::CancelCall>(action);
    callers_.erase(cancel.id);
    out.emplace_back(cancel);
  }
}

}  // namespace tenzro::node
