#include "sim/gossip_world.hpp"

#include <algorithm>
#include <cstdlib>

#include "tenzro/base/bytes.hpp"

namespace tenzro::testing {
namespace {

constexpr std::uint64_t kWallOrigin = 1'800'000'000'000;

std::uint64_t mix(std::uint64_t seed, std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = seed ^ 0xcbf29ce484222325ULL;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3ULL;
  return hash;
}

crypto::Seed seed_of(std::size_t node) {
  crypto::Seed seed{};
  seed[0] = static_cast<std::uint8_t>(node);
  seed[1] = static_cast<std::uint8_t>(node >> 8U);
  seed[31] = 1;
  return seed;
}

std::string address_text(std::size_t node) {
  return "node-" + std::to_string(node) + ":9001";
}

}  // namespace

/// Checks a signature the first time anyone asks.
class GossipWorld::Memo final : public crypto::Signing {
 public:
  Memo(const crypto::KeyPair& key, std::unordered_set<std::uint64_t>& verified,
       std::uint64_t& checks)
      : key_(key), verified_(verified), checks_(checks) {}

  [[nodiscard]] const EndpointId& public_key() const override { return key_.public_key(); }

  [[nodiscard]] crypto::Signature sign(std::span<const std::uint8_t> message) const override {
    return key_.sign(message);
  }

  [[nodiscard]] bool is_signed(const EndpointId& key, std::span<const std::uint8_t> message,
                               const crypto::Signature& signature) const override {
    ++checks_;
    const std::uint64_t name = mix(mix(mix(0, key), message), signature);
    if (verified_.contains(name)) return true;
    if (!crypto::verify(key, message, signature)) return false;
    verified_.insert(name);
    return true;
  }

 private:
  const crypto::KeyPair& key_;
  std::unordered_set<std::uint64_t>& verified_;
  std::uint64_t& checks_;
};

struct GossipWorld::NodeState {
  NodeState(std::size_t index, std::uint64_t seed, std::unordered_set<std::uint64_t>& verified,
            std::uint64_t& checks)
      : key(crypto::KeyPair::from_seed(seed_of(index))),
        signing(key, verified, checks),
        prng(seed) {}

  crypto::KeyPair key;
  Memo signing;
  Prng prng;
  work::CallIds ids;
  std::unique_ptr<gossip::Gossip> core;
  ProviderAddress address = key.address();
  std::uint64_t life = 0;
  std::uint32_t holdings = 0;
  std::optional<Instant> armed;
  std::uint64_t bytes_before = 0;  ///< of earlier lives
  std::uint64_t record_bytes_before = 0;
};

GossipWorld::GossipWorld(Setup setup) : setup_(std::move(setup)), prng_(setup_.seed) {
  for (std::size_t i = 0; i < setup_.nodes; ++i) {
    nodes_.push_back(std::make_unique<NodeState>(i, prng_.next(), verified_, checks_));
    nodes_.back()->holdings = setup_.holdings;
    by_key_.emplace(nodes_.back()->key.public_key(), i);
  }
  for (std::size_t i = 0; i < setup_.bootstraps && i < setup_.nodes; ++i) {
    setup_.options.bootstrap.push_back({nodes_[i]->key.public_key(), address_text(i)});
  }
  groups_.assign(setup_.nodes, 0);
  for (std::size_t i = 0; i < setup_.nodes; ++i) start(i);
}

GossipWorld::~GossipWorld() = default;

void GossipWorld::start(std::size_t node) {
  NodeState& state = *nodes_[node];
  ++state.life;
  const auto wall = std::chrono::duration_cast<std::chrono::milliseconds>(now_.since_start);
  state.core =
      std::make_unique<gossip::Gossip>(setup_.options, state.signing, state.prng, state.ids, now_,
                                       kWallOrigin + static_cast<std::uint64_t>(wall.count()));
  set_facts(node);
  state.armed.reset();
  // Starts are spread over a heartbeat, as machines are.
  const Instant at =
      now_ + Duration(static_cast<std::int64_t>(prng_.below(
                 static_cast<std::uint64_t>(setup_.options.membership.heartbeat.count()))));
  state.armed = at;
  push({.at = at, .kind = Kind::tick, .node = node, .life = state.life});
}

void GossipWorld::set_facts(std::size_t node) {
  NodeState& state = *nodes_[node];
  wire::ProviderRecord facts;
  facts.name = "node-" + std::to_string(node);
  facts.software = "sim";
  facts.addresses = {address_text(node)};
  for (ExpertIndex e = 0; e < state.holdings; ++e)
    facts.models["sim-model"][0][e * 3] = {true, {12, 12, 14}};
  state.core->set_facts(now_, std::move(facts));
}

gossip::Gossip& GossipWorld::core(std::size_t node) {
  return *nodes_[node]->core;
}

const ProviderAddress& GossipWorld::address(std::size_t node) const {
  return nodes_[node]->address;
}

const EndpointId& GossipWorld::key(std::size_t node) const {
  return nodes_[node]->key.public_key();
}

bool GossipWorld::is_up(std::size_t node) const {
  return nodes_[node]->core != nullptr;
}

void GossipWorld::add_holding(std::size_t node) {
  ++nodes_[node]->holdings;
  set_facts(node);
  arm(node);
}

void GossipWorld::crash(std::size_t node) {
  NodeState& state = *nodes_[node];
  state.bytes_before += state.core->totals().bytes_sent;
  state.record_bytes_before += state.core->totals().record_bytes_sent;
  state.core.reset();
  ++state.life;
}

void GossipWorld::restart(std::size_t node) {
  if (is_up(node)) crash(node);
  start(node);
}

void GossipWorld::leave(std::size_t node) {
  gossip::Outbox out;
  nodes_[node]->core->leave(now_, out);
  take(node, out);
}

void GossipWorld::partition(std::vector<unsigned> groups) {
  groups_ = std::move(groups);
}

void GossipWorld::heal() {
  groups_.assign(nodes_.size(), 0);
}

bool GossipWorld::are_apart(std::size_t a, std::size_t b) const {
  return groups_[a] != groups_[b];
}

Duration GossipWorld::delay() {
  const auto range = static_cast<std::uint64_t>((setup_.delay_max - setup_.delay_min).count());
  return setup_.delay_min + Duration(static_cast<std::int64_t>(prng_.below(range + 1)));
}

void GossipWorld::push(Event event) {
  event.order = ++last_order_;
  events_.push(std::move(event));
}

void GossipWorld::run_for(Duration time) {
  const Instant end = now_ + time;
  while (!events_.empty() && events_.top().at <= end) {
    const Event event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    trace_ = trace_ * 0x100000001b3ULL + event.order + event.node * 31 +
             static_cast<std::uint64_t>(event.at.since_start.count());
    handle(event);
  }
  now_ = end;
}

void GossipWorld::handle(const Event& event) {
  NodeState& state = *nodes_[event.node];
  const bool is_here =
      state.core != nullptr && (event.kind == Kind::request || event.life == state.life);
  gossip::Outbox out;
  switch (event.kind) {
    case Kind::tick: {
      if (!is_here) return;
      if (state.armed == event.at) state.armed.reset();
      const auto deadline = state.core->next_deadline();
      if (deadline && *deadline <= now_) state.core->on_tick(now_, out);
      break;
    }
    case Kind::request: {
      if (!is_here) {  // a closed port
        push({.at = now_ + delay(),
              .kind = Kind::reply,
              .node = event.from,
              .life = event.from_life,
              .call = event.call});
        return;
      }
      const PeerRequestId id{++last_request_};
      open_.emplace(id, Open{event.from, event.from_life, event.call, event.is_lost_on_return});
      state.core->on_request(now_,
                             {.id = id,
                              .from = nodes_[event.from]->key.public_key(),
                              .address = address_text(event.from),
                              .protocol = wire::Protocol::gossip,
                              .bytes = *event.bytes},
                             out);
      break;
    }
    case Kind::reply: {
      if (!is_here) return;
      work::CallResult result = event.bytes
                                    ? work::CallResult(work::CallReply{
                                          nodes_[event.from]->key.public_key(), *event.bytes})
                                    : fail(ErrorCode::io, "", "unreachable");
      state.core->on_reply(now_, PeerCallId{event.call}, result, out);
      break;
    }
  }
  take(event.node, out);
}

void GossipWorld::on_call(std::size_t node, work::SendCall& call) {
  std::size_t to = nodes_.size();
  if (call.target.id) {
    if (const auto it = by_key_.find(*call.target.id); it != by_key_.end()) to = it->second;
  }
  const bool is_lost = prng_.below(1000) < setup_.loss_per_mille;
  const bool before = prng_.below(2) == 0;
  if (to == nodes_.size() || are_apart(node, to) || (is_lost && before)) return;
  push({.at = now_ + delay(),
        .kind = Kind::request,
        .node = to,
        .from = node,
        .call = static_cast<std::uint64_t>(call.id),
        .from_life = nodes_[node]->life,
        .is_lost_on_return = is_lost,
        .bytes = call.request.front()});
}

void GossipWorld::take(std::size_t node, gossip::Outbox& actions) {
  for (gossip::Action& action : actions) {
    if (auto* call = std::get_if<work::SendCall>(&action)) {
      on_call(node, *call);
    } else if (auto* reply = std::get_if<work::SendReply>(&action)) {
      const auto open = open_.extract(reply->id);
      if (!open || open.mapped().is_lost_on_return || are_apart(node, open.mapped().from)) continue;
      push({.at = now_ + delay(),
            .kind = Kind::reply,
            .node = open.mapped().from,
            .from = node,
            .life = open.mapped().from_life,
            .call = open.mapped().call,
            .bytes = reply->reply.front()});
    } else if (auto* refusal = std::get_if<work::RefuseRequest>(&action)) {
      was_refused_ = true;
      open_.erase(refusal->id);
    } else if (auto* notice = std::get_if<membership::Notice>(&action)) {
      notices_.push_back(notice->text);
    }
  }
  arm(node);
}

void GossipWorld::arm(std::size_t node) {
  NodeState& state = *nodes_[node];
  const auto deadline = state.core->next_deadline();
  if (!deadline || (state.armed && *state.armed <= *deadline)) return;
  state.armed = std::max(*deadline, now_);
  push({.at = *state.armed, .kind = Kind::tick, .node = node, .life = state.life});
}

bool GossipWorld::inject(std::size_t from, std::size_t to, const BufferRef& bytes) {
  was_refused_ = false;
  handle({.kind = Kind::request, .node = to, .from = from, .bytes = bytes});
  return !was_refused_;
}

bool GossipWorld::knows(std::size_t node, std::size_t other) const {
  const membership::Peer* peer = nodes_[node]->core->membership().find(address(other));
  return peer != nullptr && peer->facts != nullptr && peer->health == membership::Health::alive &&
         peer->digest == nodes_[other]->core->record_digest();
}

std::size_t GossipWorld::count_knowing(std::size_t other) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (i != other && is_up(i) && knows(i, other)) ++count;
  return count;
}

bool GossipWorld::views_are_equal() const {
  std::size_t up = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) up += is_up(i) ? 1U : 0U;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!is_up(i)) continue;
    if (count_knowing(i) != up - 1) return false;
    if (nodes_[i]->core->membership().peers().size() != up - 1) return false;
  }
  return true;
}

std::uint64_t GossipWorld::bytes_sent() const {
  std::uint64_t total = 0;
  for (const auto& node : nodes_)
    total += node->bytes_before + (node->core ? node->core->totals().bytes_sent : 0);
  return total;
}

std::uint64_t GossipWorld::record_bytes_sent() const {
  std::uint64_t total = 0;
  for (const auto& node : nodes_)
    total += node->record_bytes_before + (node->core ? node->core->totals().record_bytes_sent : 0);
  return total;
}

std::uint64_t GossipWorld::downs() const {
  std::uint64_t total = 0;
  for (const auto& node : nodes_)
    if (node->core) total += node->core->membership().totals().downs;
  return total;
}

}  // namespace tenzro::testing
