// The network of the simulated mesh: calls between nodes, and what may happen to them.
#include "sim/world.hpp"

namespace tenzro::testing {
namespace {

std::size_t size_of(const std::vector<BufferRef>& parts) {
  std::size_t bytes = 0;
  for (const BufferRef& part : parts) bytes += part.size();
  return bytes;
}

BufferRef joined(const std::vector<BufferRef>& parts) {
  if (parts.size() == 1) return parts.front();
  BufferRef all = BufferRef::allocate(size_of(parts));
  std::size_t at = 0;
  for (const BufferRef& part : parts) {
    std::copy(part.bytes().begin(), part.bytes().end(),
              all.mutable_bytes().begin() + static_cast<std::ptrdiff_t>(at));
    at += part.size();
  }
  return all;
}

}  // namespace

void World::part(const std::set<std::size_t>& group) {
  for (std::size_t i = 0; i < size(); ++i) {
    for (std::size_t j = 0; j < size(); ++j) {
      if (group.contains(i) != group.contains(j)) cut(i, j);
    }
  }
}

bool World::passes(std::size_t from, std::size_t to) const {
  return !cuts_.contains({from, to});
}

Duration World::latency(std::size_t from, std::size_t to) {
  const LinkOptions& link = options_.link;
  const auto spread = static_cast<std::uint64_t>((link.latency_max - link.latency_min).count());
  Duration delay = link.latency_min + Duration(prng_.below(spread + 1));
  if (prng_.below(1000) < link.repeat_per_mille) delay += link.repeat_delay;
  for (const std::size_t end : {from, to}) {
    if (const auto extra = extra_latency_.find(end); extra != extra_latency_.end())
      delay += extra->second;
  }
  return delay;
}

std::optional<std::size_t> World::find(const work::PeerTarget& target) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (target.id && *target.id != nodes_[i]->endpoint_id()) continue;
    for (const std::string& address : target.addresses) {
      if (address == nodes_[i]->address()) return i;
    }
  }
  return std::nullopt;
}

void World::on_peer_action(std::size_t index, node::Action action) {
  if (auto* call = std::get_if<node::SendCall>(&action)) {
    send(index, *call);
  } else if (const auto* cancelled = std::get_if<node::CancelCall>(&action)) {
    cancel_call(index, cancelled->id);
  } else if (auto* reply = std::get_if<node::SendReply>(&action)) {
    send_reply(index, *reply);
  } else if (const auto* refusal = std::get_if<node::RefuseRequest>(&action)) {
    refuse(index, refusal->id);
  } else {
    broken("a node without HTTP peers called one");
  }
}

void World::send(std::size_t index, node::SendCall& call) {
  ++calls_sent_[call.protocol];
  bytes_sent_[index] += size_of(call.request);
  const PeerRequestId id{++last_peer_request_};
  const auto callee = find(call.target);
  const Transit transit{index, call.id, callee.value_or(index), call.protocol};
  calls_.emplace(std::pair(index, call.id), id);
  transits_.emplace(id, transit);
  // Silence ends a call only when its connection counts as dead.
  end_call_after(options_.link.idle_timeout, transit,
                 fail(ErrorCode::io, "", callee ? "connection lost" : "nobody answers there"));
  if (!callee) return;
  if (prng_.below(1000) < options_.link.reset_per_mille) {
    end_call_after(latency(index, *callee), transit, fail(ErrorCode::io, "", "connection reset"));
  }
  carry(index, *callee,
        [this, id, from = index, to = *callee, protocol = call.protocol,
         bytes = joined(call.request)] {
          if (!transits_.contains(id)) return;  // cancelled on its way
          at(to).deliver([&](node::Node& node, node::Outbox& out) {
            node.on_peer_request(now_,
                                 {.id = id,
                                  .from = at(from).endpoint_id(),
                                  .address = at(from).address(),
                                  .protocol = protocol,
                                  .bytes = bytes},
                                 out);
          });
        });
}

void World::carry(std::size_t from, std::size_t to, std::function<void()> arrive) {
  if (!passes(from, to)) return;
  if (clogs_.contains({from, to})) {
    clogged_.push_back({from, lives_[from], {to, lives_[to], std::move(arrive)}});
    return;
  }
  after(to, latency(from, to), std::move(arrive));
}

void World::heal() {
  cuts_.clear();
  clogs_.clear();
  for (Clogged& clogged : std::exchange(clogged_, {})) {
    const std::size_t to = clogged.event.index;
    if (clogged.from_life != lives_[clogged.from] || clogged.event.life != lives_[to]) continue;
    after(to, latency(clogged.from, to), std::move(clogged.event.run));
  }
}

void World::end_call(const Transit& transit, const work::CallResult& result) {
  const auto call = calls_.extract({transit.caller, transit.call});
  if (!call) return;  // over already
  at(transit.caller).deliver([&](node::Node& node, node::Outbox& out) {
    node.on_peer_reply(now_, transit.call, result, out);
  });
}

void World::end_call_after(Duration delay, const Transit& transit, work::CallResult result) {
  after(transit.caller, delay,
        [this, transit, result = std::move(result)] { end_call(transit, result); });
}

void World::cancel_call(std::size_t index, PeerCallId call) {
  const auto id = calls_.extract({index, call});
  if (!id) return;
  const auto transit = transits_.extract(id.mapped());
  if (!transit) return;
  const std::size_t callee = transit.mapped().callee;
  carry(index, callee, [this, callee, request = id.mapped()] {
    at(callee).deliver([&](node::Node& node, node::Outbox& out) {
      node.on_peer_request_cancelled(now_, request, out);
    });
  });
}

void World::send_reply(std::size_t index, node::SendReply& reply) {
  bytes_sent_[index] += size_of(reply.reply);
  const auto found = transits_.extract(reply.id);
  if (!found) return;  // the caller has gone
  const Transit transit = found.mapped();
  if (tamper) tamper(index, transit.protocol, reply.reply);
  carry(index, transit.caller,
        [this, transit,
         result = work::CallResult(work::CallReply{at(index).endpoint_id(), joined(reply.reply)})] {
          end_call(transit, result);
        });
}

void World::refuse(std::size_t index, PeerRequestId request) {
  const auto found = transits_.extract(request);
  if (!found) return;
  carry(index, found.mapped().caller, [this, transit = found.mapped()] {
    end_call(transit, fail(ErrorCode::runtime, "", "the peer refused the request"));
  });
}

}  // namespace tenzro::testing
