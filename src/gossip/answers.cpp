// What others ask for.
#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/gossip/gossip.hpp"

namespace tenzro::gossip {
namespace {

auto find_prefix(const std::map<ProviderAddress, membership::Tombstone>& map,
                 const wire::AddressPrefix& prefix) {
  ProviderAddress low{};
  std::copy(prefix.begin(), prefix.end(), low.begin());
  const auto it = map.lower_bound(low);
  return it != map.end() && wire::prefix_of(it->first) == prefix ? it : map.end();
}

/// As honest peers send them; others cost themselves the sort.
std::vector<wire::DigestEntry> sorted(std::vector<wire::DigestEntry> entries) {
  if (!std::is_sorted(entries.begin(), entries.end())) std::sort(entries.begin(), entries.end());
  return entries;
}

/// Beyond it a node without addresses is not asked, and is known by what it sends alone.
constexpr std::size_t kContactsMax = 256;

/// A node whose record is not here yet (this one may have restarted, which the others did not
/// notice), or announces no address, is asked for its record and pages where it was seen.
void note_contact(const membership::Membership& members, const work::PeerRequest& request,
                  std::map<EndpointId, std::vector<std::string>>& contacts) {
  const membership::Peer* peer = members.find(crypto::address_of(request.from));
  const bool has_told =
      peer != nullptr && peer->facts != nullptr && !peer->facts->addresses.empty();
  const bool has_left = members.tombstones().contains(crypto::address_of(request.from));
  if (has_told || has_left || request.address.empty()) return;
  if (contacts.size() >= kContactsMax && !contacts.contains(request.from)) {
    // Strangers make room: whoever has sent no record may never do so.
    const auto stranger = std::find_if(contacts.begin(), contacts.end(), [&](const auto& contact) {
      return members.find(crypto::address_of(contact.first)) == nullptr;
    });
    if (stranger == contacts.end()) return;
    contacts.erase(stranger);
  }
  contacts.insert_or_assign(request.from, std::vector{request.address});
}

}  // namespace

Gossip::Known Gossip::known_as(const wire::AddressPrefix& prefix) const {
  if (prefix == wire::prefix_of(self_)) {
    return {.address = &self_,
            .version = version_.packed(),
            .beat = own_beat_.empty() ? nullptr : &own_beat_};
  }
  if (const auto* entry = members_.find(prefix)) {
    return {.address = &entry->first,
            .peer = &entry->second,
            .version = entry->second.beat.version.packed(),
            .beat = entry->second.sealed_beat.get()};
  }
  const auto gone = find_prefix(members_.tombstones(), prefix);
  if (gone == members_.tombstones().end()) return {};
  return {.address = &gone->first,
          .version = gone->second.version.packed(),
          .beat = gone->second.goodbye.get()};
}

const wire::Bytes* Gossip::sealed_beat(const ProviderAddress& address) const {
  if (address == self_) return own_beat_.empty() ? nullptr : &own_beat_;
  if (const membership::Peer* peer = members_.find(address)) return peer->sealed_beat.get();
  const auto gone = members_.tombstones().find(address);
  return gone == members_.tombstones().end() ? nullptr : gone->second.goodbye.get();
}

std::vector<wire::DigestEntry> Gossip::digest() const {
  std::vector<wire::DigestEntry> entries;
  entries.reserve(members_.peers().size() + members_.tombstones().size() + 1);
  for (const auto& [address, peer] : members_.peers()) {
    if (peer.sealed_beat != nullptr)
      entries.push_back({wire::prefix_of(address), peer.complete.packed()});
  }
  // Both tables are in address order already: merging is linear where sorting would not be.
  const auto peers = static_cast<std::ptrdiff_t>(entries.size());
  for (const auto& [address, gone] : members_.tombstones()) {
    if (gone.goodbye != nullptr)
      entries.push_back({wire::prefix_of(address), gone.version.packed()});
  }
  std::inplace_merge(entries.begin(), entries.begin() + peers, entries.end());
  if (!own_beat_.empty()) {
    const wire::DigestEntry own{wire::prefix_of(self_), version_.packed()};
    entries.insert(std::lower_bound(entries.begin(), entries.end(), own), own);
  }
  if (entries.size() > wire::kGossipEntriesMax) entries.resize(wire::kGossipEntriesMax);
  return entries;
}

void Gossip::answer_digest(const std::vector<wire::DigestEntry>& theirs,
                           wire::GossipMessage& reply) const {
  const std::vector<wire::DigestEntry> ours = digest();
  const std::vector<wire::DigestEntry> known = sorted(theirs);
  // Both in order: one walk finds what is newer there, a second one what is newer here.
  auto mine = ours.begin();
  for (const wire::DigestEntry& entry : known) {
    while (mine != ours.end() && mine->prefix < entry.prefix) ++mine;
    const bool is_told = mine != ours.end() && mine->prefix == entry.prefix;
    if (is_told && mine->version >= entry.version) continue;
    if (entry.version > known_as(entry.prefix).version &&
        reply.wanted.size() < wire::kGossipWantedMax)
      reply.wanted.push_back(entry.prefix);
  }
  std::size_t bytes = 0;
  auto other = known.begin();
  for (const wire::DigestEntry& entry : ours) {
    while (other != known.end() && other->prefix < entry.prefix) ++other;
    const bool has_it =
        other != known.end() && other->prefix == entry.prefix && other->version >= entry.version;
    if (has_it) continue;
    const wire::Bytes* beat = known_as(entry.prefix).beat;
    if (beat == nullptr) continue;
    bytes += beat->size();
    if (bytes > options_.reply_bytes_max || reply.beats.size() >= options_.signatures_max) return;
    reply.beats.push_back(*beat);
  }
}

void Gossip::answer_wanted(const wire::GossipMessage& request, wire::GossipMessage& reply) {
  std::size_t bytes = 0;
  const auto add_beat = [&](const wire::Bytes* beat) {
    if (beat == nullptr || reply.beats.size() >= options_.signatures_max) return;
    bytes += beat->size();
    reply.beats.push_back(*beat);
  };
  for (const wire::AddressPrefix& prefix : request.wanted) add_beat(known_as(prefix).beat);
  for (const wire::AddressPrefix& prefix : request.records_wanted) {
    const Known known = known_as(prefix);
    const wire::Bytes* record = known.address == &self_ ? &own_record_
                                : known.peer != nullptr ? known.peer->sealed_record.get()
                                                        : nullptr;
    if (record == nullptr || record->empty()) continue;
    // A record larger than what a reply may hold beside others goes alone.
    if (bytes > 0 && bytes + record->size() > options_.reply_bytes_max) return;
    if (reply.records.size() >= wire::kGossipRecordsMax) return;
    bytes += record->size();
    reply.records.push_back(*record);
    add_beat(known.beat);
  }
}

void Gossip::answer_pages(const std::vector<Hash32>& wanted, wire::GossipMessage& reply) const {
  std::size_t bytes = 0;
  for (const Hash32& name : wanted) {
    const wire::Bytes* page = manifests_.find(name);
    if (page == nullptr || page->size() > wire::kRecordBytesMax) continue;
    if (bytes > 0 && bytes + page->size() > options_.reply_bytes_max) return;
    bytes += page->size();
    reply.pages.push_back(*page);
  }
}

void Gossip::answer_link(Instant now, const EndpointId& from, wire::Link asked,
                         wire::GossipMessage& reply) {
  if (asked == wire::Link::declined) return drop_link(now, from, options_.declined_for);
  if (asked != wire::Link::wanted) return;
  const membership::Peer* peer = members_.find(crypto::address_of(from));
  const bool has_room = links_.size() < options_.fanout * 2 && peer != nullptr &&
                        peer->facts != nullptr && !leaving_since_;
  if (!links_.contains(from) && has_room) add_link(now, from);
  reply.link = links_.contains(from) ? wire::Link::wanted : wire::Link::declined;
}

bool Gossip::relay_probe(Instant now, const work::PeerRequest& request,
                         const ProviderAddress& probe, Outbox& out) {
  const membership::Peer* peer = members_.find(probe);
  if (peer == nullptr || relayed_probes_ >= options_.relayed_probes_max) return false;
  const bool sent =
      send_to(now, peer->key,
              Call{.kind = CallKind::relayed, .relayed_for = request.id, .probed = probe}, {}, out);
  if (sent) ++relayed_probes_;
  return sent;
}

void Gossip::on_request(Instant now, const work::PeerRequest& request, Outbox& out) {
  ++totals_.requests;
  note_time(now);
  auto message = members_.is_admitted(request.from)
                     ? wire::decode_gossip(as_u8(request.bytes.bytes()))
                     : fail(ErrorCode::forbidden, "", "");
  if (!message) {
    ++totals_.refused;
    if (message.error().code == ErrorCode::forbidden && !message.error().detail.empty()) {
      notice_mismatch(request.from, message.error().detail, out);
      return reply(request.id, {.error = message.error().detail}, out);
    }
    out.emplace_back(RefuseRequest{request.id});
    return;
  }
  if (*message == wire::GossipMessage{}) {
    wire::GossipMessage reply_message;
    reply_message.beats.push_back(fresh_beat(now));
    return reply(request.id, reply_message, out);
  }
  if (message->probe && relay_probe(now, request, *message->probe, out)) return;
  const Intake intake = take_items(now, *message, request.from, out);
  if (intake.is_bad) {
    ++totals_.refused;
    out.emplace_back(RefuseRequest{request.id});
    return;
  }
  note_contact(members_, request, contacts_);
  wire::GossipMessage answer;
  answer_link(now, request.from, message->link, answer);
  const auto link = links_.find(request.from);
  if (link != links_.end() && !message->digest && intake.repeats > intake.news) {
    link->second.is_eager = false;
    answer.prune = true;
  }
  if (link != links_.end() && !message->wanted.empty()) link->second.is_eager = true;
  answer_wanted(*message, answer);
  if (message->digest) answer_digest(*message->digest, answer);
  answer_pages(message->pages_wanted, answer);
  reply(request.id, answer, out);
}

}  // namespace tenzro::gossip
