// What messages bring.
#include <algorithm>
#include <utility>

#include "tenzro/crypto/address.hpp"
#include "tenzro/crypto/sha256.hpp"
#include "tenzro/gossip/gossip.hpp"

namespace tenzro::gossip {
namespace {

constexpr std::size_t kSourcesMax = 4;

}  // namespace

bool Gossip::check(std::string_view tag, const EndpointId& key, const wire::Sealed& sealed,
                   Intake& intake) {
  if (intake.checked >= options_.signatures_max) return false;
  ++intake.checked;
  wire::Bytes message(tag.begin(), tag.end());
  message.insert(message.end(), sealed.body.begin(), sealed.body.end());
  if (signing_.is_signed(key, message, sealed.signature)) return true;
  ++totals_.bad_signatures;
  intake.is_bad = true;
  return false;
}

Gossip::Intake Gossip::take_items(Instant now, const wire::GossipMessage& message,
                                  const EndpointId& from, Outbox& out) {
  Intake intake;
  for (const wire::Bytes& sealed : message.beats) {
    take_beat(now, sealed, from, intake, out);
    if (intake.is_bad) return intake;
  }
  for (const wire::Bytes& sealed : message.records) {
    take_record(now, sealed, from, intake, out);
    if (intake.is_bad) return intake;
  }
  const auto link = links_.find(from);
  for (const wire::DigestEntry& entry : message.announced) {
    const Known known = known_as(entry.prefix);
    if (known.version < entry.version) {
      want(now, entry.prefix, entry.version, from, true);
    } else if (link != links_.end() && known.address != nullptr) {
      // The peer has it: it need not hear of it from here.
      link->second.queue.erase(*known.address);
    }
  }
  return intake;
}

void Gossip::take_beat(Instant now, const wire::Bytes& bytes, const EndpointId& from,
                       Intake& intake, Outbox& out) {
  const auto sealed = wire::split_sealed(bytes);
  const auto beat = sealed ? wire::decode_beat(sealed->body)
                           : fail(ErrorCode::invalid_params, "beat", "too short");
  if (!beat) {
    ++totals_.bad_items;
    intake.is_bad = true;
    return;
  }
  const ProviderAddress address = crypto::address_of(beat->public_key);
  const wire::AddressPrefix prefix = wire::prefix_of(address);
  const bool is_own = address == self_;
  if (is_own ? beat->version <= version_ : !members_.is_news(address, *beat)) {
    ++intake.repeats;
    ++totals_.beats_repeated;
    const membership::Peer* peer = members_.find(address);
    const bool is_newest = peer != nullptr && peer->beat.version == beat->version;
    if (is_newest && peer->needs_record()) want(now, prefix, 0, from, false);
    if (const auto link = links_.find(from); is_newest && link != links_.end())
      link->second.queue.erase(address);
    return;
  }
  if (!is_own && !members_.is_admitted(beat->public_key)) return;
  if (!check(wire::kBeatTag, beat->public_key, *sealed, intake)) return;
  if (is_own) return on_own_beat(now, *beat, out);
  ++intake.news;
  membership::Outbox actions;
  const auto heard = from == beat->public_key ? membership::Membership::Heard::directly
                                              : membership::Membership::Heard::by_others;
  const membership::Verdict verdict = members_.on_beat(now, *beat, bytes, heard, actions);
  take_membership(now, actions, out);
  if (verdict == membership::Verdict::applied_needs_record) {
    want(now, prefix, beat->version.packed(), from, false);
  } else {
    wanted_.erase(prefix);
    if (verdict == membership::Verdict::applied) relay(now, address, &from);
  }
}

void Gossip::take_record(Instant now, const wire::Bytes& bytes, const EndpointId& from,
                         Intake& intake, Outbox& out) {
  // The cheap question first: a record costs far more to read than to send.
  const Hash32 hash = crypto::sha256(bytes);
  wire::RecordDigest digest;
  std::copy_n(hash.begin(), digest.size(), digest.begin());
  if (!members_.admit_record(now, digest)) return;
  const auto sealed = wire::split_sealed(bytes);
  auto record = sealed ? wire::decode_record(sealed->body)
                       : fail(ErrorCode::invalid_params, "record", "too short");
  if (!record) {
    ++totals_.bad_items;
    intake.is_bad = true;
    return;
  }
  const ProviderAddress address = crypto::address_of(record->public_key);
  if (!members_.wants_record(address, digest)) return;
  if (!check(wire::kRecordTag, record->public_key, *sealed, intake)) return;
  membership::Outbox actions;
  if (!members_.on_record(now, std::move(*record), bytes, digest, actions)) return;
  wanted_.erase(wire::prefix_of(address));
  take_membership(now, actions, out);
  relay(now, address, &from);
}

void Gossip::want(Instant now, const wire::AddressPrefix& prefix, std::uint64_t version,
                  const EndpointId& from, bool announced_only) {
  auto it = wanted_.find(prefix);
  if (it == wanted_.end()) {
    if (wanted_.size() >= options_.wanted_max) return;
    it = wanted_.emplace(prefix, Wanted{}).first;
    it->second.is_announced_only = announced_only;
    it->second.due = announced_only ? now + options_.graft_after : now;
  }
  Wanted& wanted = it->second;
  wanted.version = std::max(wanted.version, version);
  if (!announced_only && std::exchange(wanted.is_announced_only, false) && !wanted.is_asked)
    wanted.due = now;
  const auto known = std::find(wanted.sources.begin(), wanted.sources.end(), from);
  if (known == wanted.sources.end() && wanted.sources.size() < kSourcesMax)
    wanted.sources.push_back(from);
  if (!wanted_at_ || wanted.due < *wanted_at_) wanted_at_ = wanted.due;
}

void Gossip::take_membership(Instant now, membership::Outbox& actions, Outbox& out) {
  for (membership::Action& action : actions) {
    if (const auto* gone = std::get_if<membership::PeerGone>(&action)) {
      forget(gone->address);
    } else if (const auto* record = std::get_if<membership::RecordChanged>(&action)) {
      if (!record->record->addresses.empty()) contacts_.erase(record->record->public_key);
    } else if (const auto* health = std::get_if<membership::HealthChanged>(&action)) {
      if (health->health == membership::Health::suspect) probe(now, health->address, out);
    }
    std::visit([&](auto& value) { out.emplace_back(std::move(value)); }, action);
  }
}

void Gossip::forget(const ProviderAddress& gone) {
  manifests_.forget(gone);
  pages_due_.erase(gone);
  const auto is_gone = [&](const auto& entry) { return crypto::address_of(entry.first) == gone; };
  std::erase_if(links_, is_gone);
  std::erase_if(contacts_, is_gone);
}

void Gossip::relay(Instant now, const ProviderAddress& address, const EndpointId* from) {
  for (auto& [peer, link] : links_) {
    if (from != nullptr && peer == *from) continue;
    enqueue(now, link, address);
  }
}

}  // namespace tenzro::gossip
