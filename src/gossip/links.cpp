// The active view: who is pushed to, and with whom views are compared.
#include <algorithm>
#include <utility>

#include "tenzro/crypto/address.hpp"
#include "tenzro/gossip/gossip.hpp"

namespace tenzro::gossip {
namespace {

constexpr std::size_t kBackoffsMax = 4096;
/// One comparison in so many is with anyone instead of a link.
constexpr std::uint64_t kStrangerEvery = 4;

}  // namespace

void Gossip::add_link(Instant now, const EndpointId& peer) {
  const auto [it, is_new] = links_.emplace(peer, LinkState{});
  if (is_new && !own_beat_.empty()) enqueue(now, it->second, self_);
}

void Gossip::drop_link(Instant now, const EndpointId& peer, Duration backoff) {
  links_.erase(peer);
  std::erase_if(backoff_, [&](const auto& entry) { return entry.second <= now; });
  if (backoff > Duration(0) && backoff_.size() < kBackoffsMax)
    backoff_.insert_or_assign(peer, now + backoff);
}

void Gossip::enqueue(Instant now, LinkState& link, const ProviderAddress& address) {
  const bool in_full = link.is_eager || address == self_;
  bool& queued = link.queue[address];
  queued = queued || in_full;
  const Instant due = now + (in_full ? options_.flush_after : options_.announce_after);
  if (!link.flush_at || due < *link.flush_at) link.flush_at = due;
}

void Gossip::flush(Instant now, const EndpointId& peer, LinkState& link, Outbox& out) {
  if (link.is_calling) return;
  wire::GossipMessage message{.link = wire::Link::wanted};
  Call call{.kind = CallKind::push};
  auto item = link.queue.begin();
  for (; item != link.queue.end() && call.items.size() < options_.signatures_max; ++item) {
    const auto& [address, in_full] = *item;
    const membership::Peer* known = members_.find(address);
    const wire::Bytes* beat = known != nullptr ? known->sealed_beat.get() : sealed_beat(address);
    if (beat == nullptr) continue;
    if (in_full) {
      message.beats.push_back(*beat);
    } else {
      const wire::AddressPrefix prefix = wire::prefix_of(address);
      message.announced.push_back(
          {prefix, known != nullptr ? known->complete.packed() : known_as(prefix).version});
    }
    call.items.push_back(address);
  }
  link.queue.erase(link.queue.begin(), item);
  link.flush_at.reset();
  if (!link.queue.empty()) link.flush_at = now + options_.flush_after;
  if (call.items.empty()) return;
  const std::vector<ProviderAddress> items = call.items;
  if (send_to(now, peer, std::move(call), message, out)) {
    link.is_calling = true;
  } else {
    for (const ProviderAddress& address : items) enqueue(now, link, address);
    link.flush_at = now + options_.call_timeout;
  }
}

std::optional<ProviderAddress> Gossip::random_peer() {
  const auto& peers = members_.peers();
  if (peers.empty()) return std::nullopt;
  ProviderAddress at;
  for (std::uint8_t& byte : at) byte = static_cast<std::uint8_t>(prng_.below(256));
  auto it = peers.lower_bound(at);
  if (it == peers.end()) it = peers.begin();
  return it->first;
}

void Gossip::dial_bootstrap(Instant now, std::size_t entry, Outbox& out) {
  if (const auto refused = refused_bootstrap_.find(entry); refused != refused_bootstrap_.end()) {
    if (!refused->second || now < *refused->second) return;
  }
  const bool is_calling = std::any_of(calls_.begin(), calls_.end(), [&](const auto& call) {
    return call.second.bootstrap == entry;
  });
  if (is_calling) return;
  const Bootstrap& bootstrap = options_.bootstrap[entry];
  work::PeerTarget target{.id = bootstrap.id, .addresses = {bootstrap.address}};
  if (const auto pinned = pinned_.find(entry); pinned != pinned_.end()) target.id = pinned->second;
  if (target.id == signing_.public_key()) return;
  Call call{.kind = CallKind::dial, .peer = target.id, .bootstrap = entry};
  send(now, std::move(call), std::move(target), introduction(), out);
}

void Gossip::maintain_links(Instant now, Outbox& out) {
  if (own_record_.empty()) return;
  if (members_.peers().empty()) {
    for (std::size_t entry = 0; entry < options_.bootstrap.size(); ++entry)
      dial_bootstrap(now, entry, out);
    return;
  }
  std::size_t dialling =
      static_cast<std::size_t>(std::count_if(calls_.begin(), calls_.end(), [](const auto& entry) {
        return entry.second.kind == CallKind::dial && !entry.second.bootstrap;
      }));
  // Tries are few: a draw that does not fit is left to the next second.
  for (std::size_t draw = 0; draw < options_.fanout * 2; ++draw) {
    if (links_.size() + dialling >= options_.fanout) return;
    const auto address = random_peer();
    const membership::Peer* peer = members_.find(*address);
    if (peer->facts == nullptr || links_.contains(peer->key)) continue;
    if (const auto it = backoff_.find(peer->key); it != backoff_.end() && now < it->second)
      continue;
    const bool is_called = std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
      return entry.second.kind == CallKind::dial && entry.second.peer == peer->key;
    });
    if (is_called) continue;
    if (send_to(now, peer->key, Call{.kind = CallKind::dial}, introduction(), out)) ++dialling;
  }
}

void Gossip::compare(Instant now, Outbox& out) {
  if (own_record_.empty()) return;
  ++comparisons_;
  wire::GossipMessage message;
  message.digest = digest();
  std::optional<EndpointId> partner;
  if (!links_.empty() && comparisons_ % kStrangerEvery != 0) {
    partner =
        std::next(links_.begin(), static_cast<std::ptrdiff_t>(prng_.below(links_.size())))->first;
  } else if (const auto stranger = random_peer()) {
    partner = members_.find(*stranger)->key;
  }
  if (partner) send_to(now, *partner, Call{.kind = CallKind::compare}, message, out);

  // Somebody who is out of sight: a partition ends when both sides call across it.
  std::vector<const membership::Tombstone*> lost;
  for (const auto& [address, gone] : members_.tombstones()) {
    if (gone.goodbye == nullptr && !gone.addresses.empty()) lost.push_back(&gone);
  }
  std::vector<std::size_t> entries;
  for (std::size_t i = 0; i < options_.bootstrap.size(); ++i) {
    const auto pinned = pinned_.find(i);
    const auto id = pinned != pinned_.end() ? pinned->second : options_.bootstrap[i].id;
    if (!id || members_.find(crypto::address_of(*id)) == nullptr) entries.push_back(i);
  }
  if (lost.empty() && entries.empty()) return;
  const std::uint64_t draw = prng_.below(lost.size() + entries.size());
  if (draw >= lost.size()) return dial_bootstrap(now, entries[draw - lost.size()], out);
  wire::GossipMessage call = introduction();
  call.link = wire::Link::none;
  send(now, Call{.kind = CallKind::compare, .peer = lost[draw]->key},
       {.id = lost[draw]->key, .addresses = lost[draw]->addresses}, call, out);
}

wire::GossipMessage Gossip::introduction() const {
  wire::GossipMessage message{.link = wire::Link::wanted};
  if (!own_beat_.empty()) message.beats.push_back(own_beat_);
  if (!own_record_.empty()) message.records.push_back(own_record_);
  message.digest = digest();
  return message;
}

}  // namespace tenzro::gossip
