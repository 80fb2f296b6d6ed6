// Node: leaving without a loss: what only this node holds goes elsewhere first.
#include <algorithm>

#include "tenzro/node/node.hpp"

#include "presence.hpp"

namespace tenzro::node {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);

}  // namespace

void Node::drain() {
  is_draining_ = true;
  is_leaving_ = true;
  update_roles();
}

void Node::begin_drain(Instant now, Duration limit) {
  is_draining_ = true;
  update_roles();
  facts_due_ = now;  // it takes no copies any more
  if (!drain_) drain_ = Drain{.since = now};
  drain_->until = now + limit;
  drain_->look_at = now;
}

/// Experts here of which no other node that stays has a copy.
void Node::count_only_here(Instant now) {
  drain_->only_here = 0;
  drain_->movable = 0;
  for (const auto& held : holder_.experts()) {
    const auto candidates = view_.candidates(held.key);
    const bool is_elsewhere =
        std::any_of(candidates.begin(), candidates.end(), [&](const shards::Candidate& holder) {
          const shards::Provider& provider = *holder.provider;
          return provider.address != about_.provider && !provider.is_draining &&
                 provider.health == shards::Health::alive;
        });
    if (is_elsewhere) continue;
    ++drain_->only_here;
    // Without a blob to fetch nobody can take it.
    if (held.row->source_uri) ++drain_->movable;
  }
  const bool has_others =
      std::any_of(view_.providers().begin(), view_.providers().end(), [&](const auto& entry) {
        return entry.first != about_.provider && !entry.second.is_draining;
      });
  // Whoever went lately may be back in time; without anybody there is nothing to wait for.
  const bool may_return = peer_left_at_ && now - *peer_left_at_ < repair().grace();
  if (!has_others && !may_return) drain_->movable = 0;
}

void Node::tick_drain(Instant now, Outbox& out) {
  if (!drain_ || drain_->is_over || now < drain_->look_at) return;
  drain_->look_at = now + kLookEvery;
  stop_repairs(now, out);
  count_only_here(now);
  if (drain_->movable > 0) {
    drain_->alone_since.reset();
  } else if (!drain_->alone_since) {
    drain_->alone_since = now;
  }
  const bool is_idle = requests_.empty() && peer_requests_.empty();
  // For a heartbeat more, so that all have heard who holds it now and that this node goes.
  const bool is_done =
      drain_->alone_since && is_idle && now - *drain_->alone_since >= options_.heartbeat;
  if (!is_done && now < drain_->until) return;
  drain_->is_over = true;
  if (drain_->only_here > 0)
    out.emplace_back(Notice{"drained, and " + std::to_string(drain_->only_here) +
                            " experts are held by no other node"});
}

std::optional<rpc::DrainProgress> Node::drain_progress(Instant now) const {
  if (!drain_) return std::nullopt;
  const auto seconds = [](Duration time) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time).count();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, whole));
  };
  return rpc::DrainProgress{.requests = requests_.size() + peer_requests_.size(),
                            .only_here = drain_->only_here,
                            .movable = drain_->movable,
                            .elapsed_s = seconds(now - drain_->since),
                            .left_s = seconds(drain_->until - now)};
}

}  // namespace tenzro::node
