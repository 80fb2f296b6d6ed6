#include "tenzro/membership/membership.hpp"

#include <algorithm>
#include <memory>

#include "tenzro/base/assert.hpp"

namespace tenzro::membership {

const Peer* Membership::find(const ProviderAddress& address) const {
  const auto place = index_.find(address);
  return place ? &(*place)->second : nullptr;
}

const std::pair<const ProviderAddress, Peer>* Membership::find(
    const wire::AddressPrefix& prefix) const {
  const auto place = index_.find(prefix);
  return place ? std::to_address(*place) : nullptr;
}

Membership::Peers::iterator Membership::add_peer(const ProviderAddress& address,
                                                 const EndpointId& key) {
  const auto added = peers_.emplace(address, Peer{.key = key}).first;
  index_.insert(added);
  return added;
}

std::uint64_t Membership::wall_ms(Instant now) const {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now - wall_origin_);
  return wall_origin_ms_ + static_cast<std::uint64_t>(since.count());
}

void Membership::set_wall(Instant now, std::uint64_t wall_ms) {
  constexpr std::uint64_t kWallMax = 1ULL << 60U;
  const std::uint64_t wall = std::min(wall_ms, kWallMax);
  const auto moved =
      static_cast<std::int64_t>(wall) - static_cast<std::int64_t>(this->wall_ms(now));
  wall_origin_ = now;
  wall_origin_ms_ = wall;
  // Lags are against this clock: unmoved, they would make every later beat look old or new.
  for (auto& [address, peer] : peers_) peer.lag_ms += moved;
  for (auto& [address, gone] : tombstones_) gone.lag_ms += moved;
}

Duration Membership::ttl_of(const Peer& peer) const {
  const Duration least = options_.heartbeat * 3 / 2;
  if (peer.facts == nullptr) return std::max<Duration>(least, options_.heartbeat * 3);
  return std::max<Duration>(least, std::chrono::seconds(peer.facts->ttl_s));
}

void Membership::set_deadline(const ProviderAddress& address, Peer& peer, Instant deadline) {
  peer.deadline = deadline;
  if (!peer.queued) {
    peer.queued = deadlines_.emplace(deadline, address).first;
    return;
  }
  // Every beat comes here: no search for the old place, and the new one is near the end.
  auto moved = deadlines_.extract(*peer.queued);
  moved.value().first = deadline;
  peer.queued = deadlines_.insert(deadlines_.end(), std::move(moved));
}

void Membership::bury(Instant now, Peers::iterator peer, SharedBytes goodbye, Outbox& out) {
  const auto& [address, gone] = *peer;
  if (tombstones_.size() >= options_.peers_max) {
    tombstones_.erase(std::min_element(
        tombstones_.begin(), tombstones_.end(),
        [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
  }
  const bool said_goodbye = goodbye != nullptr;
  Tombstone tombstone{.key = gone.key,
                      .version = gone.beat.version,
                      .lag_ms = gone.lag_ms,
                      .until = now + options_.tombstone_for,
                      .goodbye = std::move(goodbye)};
  if (gone.facts != nullptr) tombstone.addresses = gone.facts->addresses;
  if (tombstones_.empty()) tombstones_end_ = tombstone.until;
  tombstones_end_ = std::min(tombstones_end_, tombstone.until);
  tombstones_.insert_or_assign(address, std::move(tombstone));
  if (gone.facts != nullptr) out.emplace_back(PeerGone{address, said_goodbye});
  if (gone.health == Health::suspect) --suspects_;
  if (gone.queued) deadlines_.erase(*gone.queued);
  pending_.erase({gone.beat.record_digest, address});
  index_.erase(peer);
  peers_.erase(peer);
}

void Membership::on_pause(Instant now, Duration gap) {
  deadlines_.clear();
  for (auto& [address, peer] : peers_) {
    // Never ahead of now: what was heard since the pause is as old as it is.
    peer.heard = std::max(peer.heard, std::min(now, peer.heard + gap));
    const Duration silence = peer.health == Health::alive ? ttl_of(peer) - options_.heartbeat / 2
                                                          : ttl_of(peer) + options_.heartbeat;
    peer.deadline = std::max(now, peer.heard + silence);
    peer.queued = deadlines_.emplace(peer.deadline, address).first;
  }
}

void Membership::on_silence(Instant now, Peers::iterator silent, Outbox& out) {
  auto& [address, peer] = *silent;
  const Duration ttl = ttl_of(peer);
  if (peer.health == Health::alive) {
    peer.health = Health::suspect;
    ++suspects_;
    ++totals_.suspected;
    if (suspects_ >= 3 && suspects_ * 2 > peers_.size()) self_suspect_until_ = now + ttl;
    if (peer.facts != nullptr) out.emplace_back(HealthChanged{address, Health::suspect});
    return set_deadline(address, peer, std::max(now, peer.heard + (ttl + options_.heartbeat)));
  }
  const Instant latest = peer.heard + (ttl + options_.heartbeat * 7 / 4);
  if (suspects_itself(now) && now < latest) return set_deadline(address, peer, latest);
  ++totals_.downs;
  bury(now, silent, nullptr, out);
}

void Membership::on_tick(Instant now, Outbox& out) {
  // Ends: a pass makes a peer suspect, puts its deadline after `now`, or removes it.
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto silent = index_.find(deadlines_.begin()->second);
    TENZRO_ASSERT(silent.has_value());
    on_silence(now, *silent, out);
  }
  if (tombstones_end_ <= now) end_tombstones(now);
}

void Membership::end_tombstones(Instant now) {
  std::optional<Instant> next;
  for (auto it = tombstones_.begin(); it != tombstones_.end();) {
    if (it->second.until <= now) {
      it = tombstones_.erase(it);
      continue;
    }
    next = next ? std::min(*next, it->second.until) : it->second.until;
    ++it;
  }
  if (next) tombstones_end_ = *next;
}

std::optional<Instant> Membership::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

}  // namespace tenzro::membership
