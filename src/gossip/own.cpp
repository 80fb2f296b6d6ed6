// What this node says of itself.
#include <algorithm>
#include <bit>
#include <utility>

#include "tenzro/crypto/sha256.hpp"
#include "tenzro/gossip/gossip.hpp"

namespace tenzro::gossip {

wire::Bytes Gossip::seal(std::string_view tag, std::vector<std::uint8_t> body) const {
  wire::Bytes message(tag.begin(), tag.end());
  message.insert(message.end(), body.begin(), body.end());
  const crypto::Signature signature = signing_.sign(message);
  body.insert(body.end(), signature.begin(), signature.end());
  return body;
}

void Gossip::set_facts(Instant now, wire::ProviderRecord facts) {
  facts.public_key = signing_.public_key();
  facts.version = facts_.version;
  facts.wall_ms = facts_.wall_ms;
  facts.ttl_s = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(options_.ttl).count());
  if (has_facts_ && facts == facts_) return;
  facts_ = std::move(facts);
  record_is_due_ = true;
  if (!announce_at_)
    announce_at_ = has_facts_ ? std::max(now, record_made_ + options_.coalesce) : now;
  has_facts_ = true;
}

void Gossip::set_load(Instant now, const wire::Load& load) {
  const bool is_urgent = load.is_draining != load_.is_draining;
  load_ = load;
  if (is_urgent && has_facts_ && !announce_at_) announce_at_ = now;
}

Hash32 Gossip::set_own_pages(std::vector<wire::Bytes> pages) {
  const Hash32 root = page_name(make_table(pages));
  manifests_.set_own(std::move(pages));
  return root;
}

void Gossip::make_beat(Instant now, bool is_leaving) {
  if (version_.sequence == wire::Version::kSequenceMax) {
    version_ = {std::max(version_.incarnation + 1, members_.wall_ms(now)), 0};
  }
  ++version_.sequence;
  const wire::Beat beat{.public_key = signing_.public_key(),
                        .version = version_,
                        .wall_ms = members_.wall_ms(now),
                        .record_digest = own_digest_,
                        .load = load_,
                        .is_leaving = is_leaving};
  own_beat_ = seal(wire::kBeatTag, wire::encode_beat(beat));
  beat_made_ = now;
}

void Gossip::announce(Instant now, bool as_record, Outbox& out) {
  if (as_record) {
    facts_.version = version_;
    facts_.wall_ms = members_.wall_ms(now);
    auto body = wire::encode_record(facts_);
    if (body) {
      own_record_ = seal(wire::kRecordTag, std::move(*body));
      const Hash32 digest = crypto::sha256(own_record_);
      std::copy_n(digest.begin(), own_digest_.size(), own_digest_.begin());
    } else {
      out.emplace_back(
          membership::Notice{"own record cannot be announced: " + body.error().message()});
    }
    record_made_ = now;
    record_is_due_ = false;
  }
  if (own_record_.empty()) return;
  make_beat(now, false);
  heartbeat_at_ = now + options_.membership.heartbeat;
  relay(now, self_, nullptr);
}

const wire::Bytes& Gossip::fresh_beat(Instant now) {
  constexpr Duration kFresh = std::chrono::seconds(1);
  if (!own_record_.empty() && !leaving_since_ && now - beat_made_ > kFresh) make_beat(now, false);
  return own_beat_;
}

void Gossip::on_own_beat(Instant now, const wire::Beat& beat, Outbox& out) {
  if (beat.version <= version_ || leaving_since_) return;
  // Once or twice is an earlier life; after that each outbids the other. Said more and more rarely.
  if (++own_beats_heard_ > 2 && std::has_single_bit(own_beats_heard_)) {
    out.emplace_back(membership::Notice{
        "another process announces itself with this node's identity key: two nodes must not share "
        "a data directory's identity.key"});
  }
  // Said in an earlier life whose clock ran ahead: this life has to come after it.
  version_ = {std::min(beat.version.incarnation + 1, wire::Version::kIncarnationMax), 0};
  record_is_due_ = has_facts_;
  announce_at_ = now;
}

void Gossip::leave(Instant now, Outbox& out) {
  if (leaving_since_ || own_record_.empty()) {
    if (!leaving_since_) leaving_since_ = now;
    return;
  }
  leaving_since_ = now;
  make_beat(now, true);
  for (const auto& [peer, link] : links_) {
    wire::GossipMessage message;
    message.beats.push_back(own_beat_);
    send_to(now, peer, Call{.kind = CallKind::goodbye}, message, out);
  }
}

bool Gossip::has_left(Instant now) const {
  if (!leaving_since_) return false;
  constexpr Duration kFarewell = std::chrono::milliseconds(1500);
  return now >= *leaving_since_ + kFarewell ||
         std::none_of(calls_.begin(), calls_.end(),
                      [](const auto& entry) { return entry.second.kind == CallKind::goodbye; });
}

}  // namespace tenzro::gossip
