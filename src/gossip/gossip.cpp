#include "tenzro/gossip/gossip.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/crypto/address.hpp"

namespace tenzro::gossip {
namespace {

constexpr Duration kMaintainEvery = std::chrono::seconds(1);
/// A node that starts asks soon and a few times for what the others know: until it knows its
/// callers it serves nobody.
constexpr Duration kFirstCompare = std::chrono::milliseconds(150);
constexpr std::uint64_t kQuickComparisons = 6;

}  // namespace

Gossip::Gossip(Options options, const crypto::Signing& signing, Prng& prng, work::CallIds& ids,
               Instant now, std::uint64_t wall_ms)
    : options_(std::move(options)),
      signing_(signing),
      prng_(prng),
      ids_(ids),
      self_(crypto::address_of(signing.public_key())),
      members_(options_.membership, now, wall_ms),
      version_{std::min(wall_ms, wire::Version::kIncarnationMax), 0},
      heartbeat_at_(now + options_.membership.heartbeat),
      compare_at_(now + kFirstCompare),
      maintain_at_(now),
      last_event_(now) {}

void Gossip::note_time(Instant now) {
  const Duration gap = now - last_event_;
  // Before anything of this event is read: what it brings was not heard before the pause.
  if (gap > options_.membership.heartbeat * 2) members_.on_pause(now, gap);
  last_event_ = now;
}

void Gossip::on_tick(Instant now, Outbox& out) {
  note_time(now);
  expire_calls(now, out);
  if (leaving_since_) return;
  membership::Outbox changes;
  members_.on_tick(now, changes);
  take_membership(now, changes, out);
  if (announce_at_ && *announce_at_ <= now) {
    announce_at_.reset();
    announce(now, record_is_due_, out);
  }
  if (heartbeat_at_ <= now) {
    heartbeat_at_ = now + options_.membership.heartbeat;
    announce(now, false, out);
  }
  if (maintain_at_ <= now) {
    maintain_at_ = now + kMaintainEvery;
    maintain_links(now, out);
  }
  if (compare_at_ <= now) {
    // Newcomers compare often until nothing new comes; all at their own time.
    const Duration interval = options_.membership.heartbeat;
    const Duration soon = comparisons_ < kQuickComparisons ? kFirstCompare : kMaintainEvery;
    const Duration often = std::min<Duration>(interval, soon);
    compare_at_ = now + (is_settled_ ? interval : often);
    compare(now, out);
  }
  if (wanted_at_ && *wanted_at_ <= now) pull(now, out);
  if (pages_at_ && *pages_at_ <= now) fetch_pages(now, out);
  for (auto& [peer, link] : links_) {
    if (link.flush_at && *link.flush_at <= now && !link.is_calling) flush(now, peer, link, out);
  }
}

std::optional<Instant> Gossip::next_deadline() const {
  std::optional<Instant> earliest;
  const auto consider = [&](std::optional<Instant> at) {
    if (at && (!earliest || *at < *earliest)) earliest = at;
  };
  if (!calls_.empty()) consider(calls_.begin()->second.deadline);
  if (leaving_since_) return earliest;
  consider(heartbeat_at_);
  consider(maintain_at_);
  consider(compare_at_);
  consider(announce_at_);
  consider(wanted_at_);
  consider(pages_at_);
  consider(members_.next_deadline());
  for (const auto& [peer, link] : links_) {
    if (!link.is_calling) consider(link.flush_at);
  }
  return earliest;
}

}  // namespace tenzro::gossip
