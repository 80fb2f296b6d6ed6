#include "sim/world.hpp"

#include "tenzro/kernels/cpu.hpp"

namespace tenzro::testing {
namespace {

/// The rule of the simulator that a node broke, as the reason to stop.
[[noreturn]] void broken(const char* rule, std::uint64_t seed) {
  std::fprintf(stderr, "simulation, seed %llu: %s\n", static_cast<unsigned long long>(seed), rule);
  std::abort();
}

std::string address_of(std::size_t index) {
  return "10.0." + std::to_string(index / 250) + "." + std::to_string(index % 250 + 1) + ":9001";
}

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

World::World(const Options& options)
    : options_(options), prng_(options.seed), catalog_(catalog::Catalog::builtin()) {
  auto backend = kernels::make_cpu_backend({});
  if (!catalog_ || !backend) broken("no catalog or no backend", options.seed);
  backend_ = std::move(*backend);
  lives_.resize(options.nodes);
  bytes_sent_.resize(options.nodes);
  for (std::size_t i = 0; i < options.nodes; ++i) {
    SimNode::Setup setup{.index = i,
                         .seed = options.seed,
                         .options = options.node,
                         .address = address_of(i),
                         .disk_bytes = options.disk_bytes,
                         .backend = backend_.get(),
                         .catalog = &*catalog_};
    if (options.tune) options.tune(i, setup.options);
    nodes_.push_back(std::make_unique<SimNode>(setup, *this));
  }
  for (const auto& node : nodes_) node->start();
}

World::~World() = default;

void World::note(std::uint64_t what) {
  trace_ = (trace_ ^ what) * 0x100000001B3ULL;
}

void World::after(std::size_t index, Duration delay, std::function<void()> event) {
  queue_.emplace(std::pair(now_ + delay, ++events_), Event{index, lives_[index], std::move(event)});
}

bool World::step() {
  if (queue_.empty()) return false;
  auto next = queue_.extract(queue_.begin());
  now_ = next.key().first;
  Event event = std::move(next.mapped());
  if (event.life != lives_[event.index]) return true;  // its process has died
  if (stopped_.contains(event.index)) {
    held_back_[event.index].push_back(std::move(event));
    return true;
  }
  note(static_cast<std::uint64_t>(now_.since_start.count()) * 1'000'003 + event.index);
  event.run();
  return true;
}

void World::go_on(std::size_t index) {
  stopped_.erase(index);
  for (Event& event : std::exchange(held_back_[index], {})) {
    queue_.emplace(std::pair(now_, ++events_), std::move(event));
  }
}

void World::run_for(Duration time) {
  run_until([] { return false; }, time);
}

bool World::run_until(const std::function<bool()>& is_done, Duration time) {
  const Instant end = now_ + time;
  while (!is_done()) {
    if (queue_.empty() || queue_.begin()->first.first > end) {
      now_ = end;
      return is_done();
    }
    step();
  }
  return true;
}

RequestId World::begin(std::size_t index, rpc::Call call) {
  const RequestId request{++last_request_};
  asked_.insert({index, request});
  at(index).deliver([&](node::Node& node, node::Outbox& out) {
    node.on_call(now_, request, std::move(call), out);
  });
  return request;
}

void World::cancel(std::size_t index, RequestId request) {
  asked_.erase({index, request});
  at(index).deliver(
      [&](node::Node& node, node::Outbox& out) { node.on_cancel(now_, request, out); });
}

void World::on_answer(std::size_t index, RequestId request, Result<rpc::Answer> answer) {
  if (asked_.erase({index, request}) == 0) {
    broken("a request was answered twice, or after it was cancelled", options_.seed);
  }
  answers_.emplace(std::pair(index, request), std::move(answer));
}

std::optional<Result<rpc::Answer>> World::answer(std::size_t index, RequestId request) {
  auto answer = answers_.extract({index, request});
  if (!answer) return std::nullopt;
  return std::move(answer.mapped());
}

Result<rpc::Answer> World::call(std::size_t index, rpc::Call call, Duration time) {
  const RequestId request = begin(index, std::move(call));
  run_until([&] { return answers_.contains({index, request}); }, time);
  auto answered = answer(index, request);
  if (answered) return std::move(*answered);
  return fail(ErrorCode::internal, "", "the call was never answered");
}

void World::crash(std::size_t index) {
  ++lives_[index];
  at(index).crash();
  std::erase_if(asked_, [&](const auto& asked) { return asked.first == index; });
  std::erase_if(calls_, [&](const auto& call) { return call.first.first == index; });
}

void World::restart(std::size_t index) {
  if (at(index).is_up()) crash(index);
  at(index).start();
}

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
    broken("a node without HTTP peers called one", options_.seed);
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
  if (!callee) {
    return finish(transit, fail(ErrorCode::io, "", "nobody answers there"),
                  options_.link.idle_timeout);
  }
  // Silence ends a call only when its connection counts as dead.
  finish(transit, fail(ErrorCode::io, "", "connection lost"), options_.link.idle_timeout);
  if (prng_.below(1000) < options_.link.reset_per_mille) {
    finish(transit, fail(ErrorCode::io, "", "connection reset"), latency(index, *callee));
  }
  if (!passes(index, *callee)) return;
  after(*callee, latency(index, *callee),
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

void World::finish(const Transit& transit, work::CallResult result, Duration delay) {
  after(transit.caller, delay, [this, transit, result = std::move(result)] {
    const auto call = calls_.extract({transit.caller, transit.call});
    if (!call) return;  // over already
    at(transit.caller).deliver([&](node::Node& node, node::Outbox& out) {
      node.on_peer_reply(now_, transit.call, result, out);
    });
  });
}

void World::cancel_call(std::size_t index, PeerCallId call) {
  const auto id = calls_.extract({index, call});
  if (!id) return;
  const auto transit = transits_.extract(id.mapped());
  if (!transit || !passes(index, transit.mapped().callee)) return;
  const std::size_t callee = transit.mapped().callee;
  after(callee, latency(index, callee), [this, callee, request = id.mapped()] {
    at(callee).deliver([&](node::Node& node, node::Outbox& out) {
      node.on_peer_request_cancelled(now_, request, out);
    });
  });
}

void World::send_reply(std::size_t index, node::SendReply& reply) {
  bytes_sent_[index] += size_of(reply.reply);
  const auto found = transits_.extract(reply.id);
  if (!found) return;  // the caller has gone
  const Transit& transit = found.mapped();
  if (tamper) tamper(index, transit.protocol, reply.reply);
  if (!passes(index, transit.caller)) return;
  finish(transit, work::CallReply{at(index).endpoint_id(), joined(reply.reply)},
         latency(index, transit.caller));
}

void World::refuse(std::size_t index, PeerRequestId request) {
  const auto found = transits_.extract(request);
  if (!found || !passes(index, found.mapped().caller)) return;
  finish(found.mapped(), fail(ErrorCode::runtime, "", "the peer refused the request"),
         latency(index, found.mapped().caller));
}

}  // namespace tenzro::testing
