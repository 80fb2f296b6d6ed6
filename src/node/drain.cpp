// Node: leaving without a loss: what only this node holds goes elsewhere first.
#include <algorithm>
#include <utility>

#include "tenzro/node/node.hpp"

#include "presence.hpp"

namespace tenzro::node {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
/// A look at many experts is many slices: about a millisecond each, and time for others between.
constexpr std::size_t kLookSlice = 1024;
constexpr Duration kSliceEvery = std::chrono::milliseconds(20);

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

bool Node::is_only_here(const holder::Holder::ExpertView& held) const {
  const auto candidates = view_.candidates(held.key);
  return std::none_of(candidates.begin(), candidates.end(), [&](const shards::Candidate& holder) {
    const shards::Provider& provider = *holder.provider;
    // A copy on a node that leaves too is no copy: two that are drained together would each rely
    // on the other.
    return provider.address != about_.provider && !provider.is_draining &&
           provider.health == shards::Health::alive;
  });
}

/// Counts on, a slice of what is held at a time; true: all of it is counted anew.
bool Node::count_only_here() {
  const auto slice = holder_.experts_after(drain_->counted_to, kLookSlice);
  for (const auto& held : slice) {
    if (!is_only_here(held)) continue;
    ++drain_->counted_only_here;
    // Without a blob to fetch nobody can take it.
    if (held.row->source_uri) ++drain_->counted_movable;
  }
  if (slice.size() == kLookSlice) {
    drain_->counted_to = slice.back().key;
    return false;
  }
  drain_->counted_to.reset();
  drain_->only_here = std::exchange(drain_->counted_only_here, 0);
  drain_->movable = std::exchange(drain_->counted_movable, 0);
  return true;
}

void Node::judge_drain(Instant now, Outbox& out) {
  bool has_others = false;
  bool has_takers = false;
  for (const auto& [address, provider] : view_.providers()) {
    if (address == about_.provider) continue;
    has_others = true;
    has_takers = has_takers || !provider.is_draining;
  }
  // Whoever went lately may be back in time; without anybody there is nothing to wait for.
  const bool may_return = peer_left_at_ && now - *peer_left_at_ < repair().grace();
  if (!has_others && !may_return) drain_->movable = 0;
  if (drain_->movable == 0) {
    if (!drain_->alone_since) drain_->alone_since = now;
    return;
  }
  drain_->alone_since.reset();
  const bool is_stuck = has_others && !has_takers;
  if (is_stuck && !drain_->is_stuck) {
    out.emplace_back(
        Notice{"the drain waits: every other node leaves as well, and nobody can take " +
               std::to_string(drain_->movable) + " experts that no node that stays holds"});
  }
  drain_->is_stuck = is_stuck;
}

void Node::tick_drain(Instant now, Outbox& out) {
  if (!drain_ || drain_->is_over || now < drain_->look_at) return;
  stop_repairs(now, out);
  const bool is_late = now >= drain_->until;
  bool is_counted = count_only_here();
  while (is_late && !is_counted) is_counted = count_only_here();  // what is said last is right
  drain_->look_at = now + (is_counted ? kLookEvery : kSliceEvery);
  if (is_counted) judge_drain(now, out);
  const bool is_idle = requests_.empty() && peer_requests_.empty();
  // For a heartbeat more, so that all have heard who holds it now and that this node goes.
  const bool is_done = is_counted && drain_->alone_since && is_idle &&
                       now - *drain_->alone_since >= options_.heartbeat;
  if (!is_done && !is_late) return;
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
