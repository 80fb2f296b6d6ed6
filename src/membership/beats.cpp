// What a beat or a record changes.
#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/membership/membership.hpp"

namespace tenzro::membership {
namespace {

constexpr std::size_t kNoticedMax = 1024;
constexpr Duration kRecordEvery = std::chrono::seconds(1);
/// So many records of a provider beyond one a `kRecordEvery` are taken at once.
constexpr int kRecordsAhead = 3;

}  // namespace

Verdict Membership::refuse(Verdict verdict, const wire::Beat& beat, std::int64_t lag_ms,
                           Outbox& out) {
  const ProviderAddress address = crypto::address_of(beat.public_key);
  switch (verdict) {
    case Verdict::known:
      ++totals_.replays;
      return verdict;
    case Verdict::denied:
      ++totals_.denied;
      return verdict;
    case Verdict::full:
      ++totals_.full;
      return verdict;
    case Verdict::from_future:
      ++totals_.from_future;
      break;
    default:
      ++totals_.too_old;
      break;
  }
  if (noticed_.size() < kNoticedMax && noticed_.insert(address).second) {
    const bool is_ahead = lag_ms < 0;
    const std::int64_t seconds = (is_ahead ? -lag_ms : lag_ms) / 1000;
    out.emplace_back(Notice{"beats of provider " + to_hex(address) + " are dated " +
                            std::to_string(seconds) + " s " + (is_ahead ? "ahead of" : "behind") +
                            " this node's clock and are not used"});
  }
  return verdict;
}

bool Membership::is_news(const ProviderAddress& address, const wire::Beat& beat) const {
  if (const Peer* peer = find(address)) return is_newer(beat, peer, nullptr);
  const auto tombstone = tombstones_.find(address);
  return is_newer(beat, nullptr, tombstone == tombstones_.end() ? nullptr : &tombstone->second);
}

bool Membership::is_newer(const wire::Beat& beat, const Peer* peer, const Tombstone* tombstone) {
  if (peer != nullptr) return beat.version > peer->beat.version;
  return tombstone == nullptr ? !beat.is_leaving : beat.version > tombstone->version;
}

bool Membership::is_admitted(const EndpointId& key) const {
  return !options_.deny.contains(key) && (options_.allow.empty() || options_.allow.contains(key));
}

Membership::Age Membership::age_of(std::int64_t lag_ms, const wire::Beat& beat, Heard heard,
                                   const Peer* peer, const Tombstone* tombstone) const {
  if (heard == Heard::directly) return {Duration(0), lag_ms};
  const bool same_life =
      (peer != nullptr && peer->beat.version.incarnation == beat.version.incarnation) ||
      (tombstone != nullptr && tombstone->version.incarnation == beat.version.incarnation);
  if (!same_life) return {Duration(0), lag_ms};
  const std::int64_t least = std::min(lag_ms, peer != nullptr ? peer->lag_ms : tombstone->lag_ms);
  return {std::chrono::milliseconds(lag_ms - least), least};
}

Verdict Membership::on_beat(Instant now, const wire::Beat& beat, wire::Bytes sealed, Heard heard,
                            Outbox& out) {
  const ProviderAddress address = crypto::address_of(beat.public_key);
  constexpr std::uint64_t kWallMax = 1ULL << 60U;
  const std::int64_t lag_ms = static_cast<std::int64_t>(wall_ms(now)) -
                              static_cast<std::int64_t>(std::min(beat.wall_ms, kWallMax));
  const auto skew_ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.skew_max);
  if (!is_admitted(beat.public_key)) return refuse(Verdict::denied, beat, lag_ms, out);
  auto place = index_.find(address);
  Peer* peer = place ? &(*place)->second : nullptr;
  const auto buried = tombstones_.find(address);
  const Tombstone* tombstone = buried == tombstones_.end() ? nullptr : &buried->second;
  if (!is_newer(beat, peer, tombstone)) return refuse(Verdict::known, beat, lag_ms, out);
  if (lag_ms < -skew_ms.count()) return refuse(Verdict::from_future, beat, lag_ms, out);
  const Duration ttl = peer != nullptr ? ttl_of(*peer) : options_.heartbeat * 3;
  const Age age = age_of(lag_ms, beat, heard, peer, tombstone);
  if (std::chrono::milliseconds(lag_ms) > options_.skew_max + ttl || age.age >= ttl) {
    if (!beat.is_leaving || peer == nullptr) return refuse(Verdict::too_old, beat, lag_ms, out);
  }
  ++totals_.beats;
  if (beat.is_leaving) {
    ++totals_.goodbyes;
    if (!place) place = add_peer(address, beat.public_key);
    peer = &(*place)->second;
    set_pending(address, *peer, {}, nullptr);
    peer->beat = beat;
    peer->lag_ms = age.lag_ms;
    bury(now, *place, std::make_shared<const wire::Bytes>(std::move(sealed)), out);
    return Verdict::applied;
  }
  if (peer == nullptr) {
    if (peers_.size() >= options_.peers_max) return refuse(Verdict::full, beat, lag_ms, out);
    peer = &add_peer(address, beat.public_key)->second;
    if (tombstone != nullptr) tombstones_.erase(buried);
  }
  peer->heard = now + -age.age;
  peer->lag_ms = age.lag_ms;
  auto shared = std::make_shared<const wire::Bytes>(std::move(sealed));
  const bool has_record = peer->facts != nullptr && peer->digest == beat.record_digest;
  set_pending(address, *peer, beat.record_digest, has_record ? nullptr : shared);
  if (has_record) {
    peer->sealed_beat = std::move(shared);
    peer->complete = beat.version;
  }
  apply(now, address, *peer, beat, out);
  return has_record ? Verdict::applied : Verdict::applied_needs_record;
}

void Membership::apply(Instant now, const ProviderAddress& address, Peer& peer,
                       const wire::Beat& beat, Outbox& out) {
  const bool load_changed = peer.beat.load != beat.load;
  peer.beat = beat;
  if (peer.facts != nullptr && load_changed) out.emplace_back(LoadChanged{address});
  if (peer.health == Health::suspect) {
    peer.health = Health::alive;
    --suspects_;
    if (peer.facts != nullptr) out.emplace_back(HealthChanged{address, Health::alive});
  }
  set_deadline(address, peer, std::max(now, peer.heard + (ttl_of(peer) - options_.heartbeat / 2)));
}

void Membership::set_pending(const ProviderAddress& address, Peer& peer,
                             const wire::RecordDigest& digest, SharedBytes beat) {
  if (peer.needs_record()) pending_.erase({peer.beat.record_digest, address});
  peer.pending_beat = std::move(beat);
  if (peer.needs_record()) pending_.emplace(digest, address);
}

Instant Membership::record_opens(const ProviderAddress& address) const {
  const Peer* peer = find(address);
  return peer == nullptr ? Instant{} : peer->records_paid + -kRecordEvery * kRecordsAhead;
}

bool Membership::admit_record(Instant now, const wire::RecordDigest& digest) {
  for (auto it = pending_.lower_bound({digest, {}}); it != pending_.end() && it->first == digest;
       ++it) {
    if (record_opens(it->second) > now) continue;
    Peer& peer = peers_.at(it->second);
    peer.records_paid = std::max(now, peer.records_paid) + kRecordEvery;
    return true;
  }
  return false;
}

bool Membership::wants_record(const ProviderAddress& address,
                              const wire::RecordDigest& digest) const {
  const Peer* peer = find(address);
  return peer != nullptr && peer->needs_record() && peer->beat.record_digest == digest;
}

bool Membership::on_record(Instant now, wire::ProviderRecord record, wire::Bytes sealed,
                           const wire::RecordDigest& digest, Outbox& out) {
  const ProviderAddress address = crypto::address_of(record.public_key);
  if (!wants_record(address, digest) || record.version > peers_.at(address).beat.version) {
    ++totals_.records_unwanted;
    return false;
  }
  ++totals_.records;
  Peer& peer = peers_.at(address);
  RecordChanged changed{.address = address, .previous = peer.sealed_record};
  peer.sealed_beat = peer.pending_beat;
  set_pending(address, peer, digest, nullptr);
  peer.sealed_record = std::make_shared<const wire::Bytes>(std::move(sealed));
  peer.complete = peer.beat.version;
  peer.digest = digest;
  auto facts = record;
  facts.models.clear();
  peer.facts = std::make_shared<const wire::ProviderRecord>(std::move(facts));
  changed.record = std::make_shared<const wire::ProviderRecord>(std::move(record));
  out.emplace_back(std::move(changed));
  if (peer.health == Health::alive) {
    set_deadline(address, peer,
                 std::max(now, peer.heard + (ttl_of(peer) - options_.heartbeat / 2)));
  }
  return true;
}

}  // namespace tenzro::membership
