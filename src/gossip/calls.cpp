// Calls to peers, from the request to what its answer or failure means.
#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/gossip/gossip.hpp"

namespace tenzro::gossip {
namespace {

constexpr std::size_t kPullItemsMax = 256;
constexpr unsigned kPullAttemptsMax = 10;
constexpr unsigned kLinkFailuresMax = 4;
constexpr Duration kPullAgain = std::chrono::milliseconds(300);

}  // namespace

void Gossip::count_sent(const wire::GossipMessage& message, std::size_t bytes) {
  totals_.bytes_sent += bytes;
  totals_.beats_sent += message.beats.size();
  for (const wire::Bytes& record : message.records) totals_.record_bytes_sent += record.size();
}

bool Gossip::send(Instant now, Call call, work::PeerTarget target,
                  const wire::GossipMessage& message, Outbox& out) {
  if (calls_.size() >= options_.calls_max || target.addresses.empty()) return false;
  ++totals_.calls;
  const PeerCallId id = ids_.next();
  call.deadline = now + options_.call_timeout;
  calls_.emplace(id, std::move(call));
  BufferRef bytes = wire::encode_gossip(message);
  count_sent(message, bytes.size());
  out.emplace_back(SendCall{id, std::move(target), wire::Protocol::gossip, {std::move(bytes)}});
  return true;
}

std::optional<work::PeerTarget> Gossip::target_of(const EndpointId& peer) const {
  const membership::Peer* known = members_.find(crypto::address_of(peer));
  if (known != nullptr && known->facts != nullptr && !known->facts->addresses.empty())
    return work::PeerTarget{peer, known->facts->addresses};
  const auto contact = contacts_.find(peer);
  if (contact == contacts_.end()) return std::nullopt;
  return work::PeerTarget{peer, contact->second};
}

bool Gossip::send_to(Instant now, const EndpointId& peer, Call call,
                     const wire::GossipMessage& message, Outbox& out) {
  auto target = target_of(peer);
  if (!target) return false;
  call.peer = peer;
  return send(now, std::move(call), std::move(*target), message, out);
}

void Gossip::reply(PeerRequestId request, const wire::GossipMessage& message, Outbox& out) {
  BufferRef bytes = wire::encode_gossip(message);
  count_sent(message, bytes.size());
  out.emplace_back(SendReply{request, {std::move(bytes)}});
}

bool Gossip::on_reply(Instant now, PeerCallId id, const work::CallResult& result, Outbox& out) {
  const auto entry = calls_.extract(id);
  if (!entry) return false;
  const Call& call = entry.mapped();
  note_time(now);
  if (!result) {
    on_failure(now, call, result.error(), out);
    return true;
  }
  auto message = wire::decode_gossip(as_u8(result->bytes.bytes()));
  if (call.peer && *call.peer != result->from) {
    ++totals_.bad_items;
    on_failure(now, call, {ErrorCode::forbidden, "", "another key answered"}, out);
    return true;
  }
  if (!message || !message->error.empty()) {
    if (!message) ++totals_.bad_items;
    const bool is_mismatch = message || message.error().code == ErrorCode::forbidden;
    const std::string why = message ? "it says: " + echo(message->error) : message.error().detail;
    if (is_mismatch) notice_mismatch(result->from, why, out);
    // Not for good: whoever speaks another version may be upgraded.
    on_failure(now, call, {ErrorCode::invalid_request, "", why}, out);
    return true;
  }
  on_answer(now, call, result->from, std::move(*message), out);
  return true;
}

void Gossip::on_answer(Instant now, const Call& call, const EndpointId& from,
                       wire::GossipMessage message, Outbox& out) {
  if (!members_.is_admitted(from)) return;
  if (call.bootstrap && !join_bootstrap(*call.bootstrap, from)) return;
  const std::size_t known_before = members_.peers().size();
  if (take_items(now, message, from, out).is_bad)
    return on_failure(now, call, {ErrorCode::invalid_request, "", "an item is not valid"}, out);
  if (call.kind == CallKind::compare || call.kind == CallKind::dial)
    is_settled_ = members_.peers().size() == known_before;
  settle_link(now, call, from, message);
  if (!message.wanted.empty()) {
    wire::GossipMessage push;
    wire::GossipMessage asked;
    asked.wanted = std::move(message.wanted);
    answer_wanted(asked, push);
    if (!push.beats.empty()) send_to(now, from, Call{.kind = CallKind::compare}, push, out);
  }
  for (const wire::AddressPrefix& prefix : call.wanted) ask_again(prefix, now + kPullAgain);
  if (call.kind == CallKind::pages) take_pages(now, call, message, out);
  if (call.relayed_for) {
    --relayed_probes_;
    wire::GossipMessage answer{.probe = call.probed};
    if (const wire::Bytes* beat = sealed_beat(*call.probed)) answer.beats.push_back(*beat);
    reply(*call.relayed_for, answer, out);
  }
}

/// False where the entry names this node itself.
bool Gossip::join_bootstrap(std::size_t entry, const EndpointId& from) {
  unreachable_bootstrap_.erase(entry);
  if (from == signing_.public_key()) {
    refused_bootstrap_.insert_or_assign(entry, std::nullopt);
    return false;
  }
  pinned_.insert_or_assign(entry, from);
  // No more of these than bootstrap entries: callers cannot keep them out.
  contacts_.insert_or_assign(from, std::vector<std::string>{options_.bootstrap[entry].address});
  return true;
}

/// What an answer means for the link with who gave it.
void Gossip::settle_link(Instant now, const Call& call, const EndpointId& from,
                         const wire::GossipMessage& message) {
  if (const auto link = links_.find(from); link != links_.end() && call.kind == CallKind::push) {
    link->second.is_calling = false;
    link->second.failures = 0;
    if (message.prune) link->second.is_eager = false;
  }
  if (call.kind == CallKind::dial && message.link == wire::Link::wanted && !leaving_since_) {
    const membership::Peer* peer = members_.find(crypto::address_of(from));
    if (peer != nullptr && links_.size() < options_.fanout * 2) add_link(now, from);
  } else if (message.link == wire::Link::declined) {
    drop_link(now, from, options_.declined_for);
  }
}

void Gossip::ask_again(const wire::AddressPrefix& prefix, Instant due) {
  const auto it = wanted_.find(prefix);
  if (it == wanted_.end()) return;
  it->second.is_asked = false;
  it->second.due = due;
  if (!wanted_at_ || due < *wanted_at_) wanted_at_ = due;
}

void Gossip::on_failure(Instant now, const Call& call, const Error& error, Outbox& out) {
  ++totals_.calls_failed;
  const bool is_refusal = error.code == ErrorCode::forbidden || error.code == ErrorCode::runtime;
  if (call.bootstrap && is_refusal) on_refused_bootstrap(now, *call.bootstrap, error, out);
  if (call.bootstrap && error.code == ErrorCode::io)
    on_unreachable_bootstrap(*call.bootstrap, error, out);
  if (const auto link = call.peer ? links_.find(*call.peer) : links_.end();
      link != links_.end() && call.kind == CallKind::push) {
    link->second.is_calling = false;
    if (++link->second.failures >= kLinkFailuresMax) {
      drop_link(now, *call.peer, options_.membership.heartbeat);
    } else {
      for (const ProviderAddress& address : call.items) enqueue(now, link->second, address);
    }
  } else if (call.kind == CallKind::dial && call.peer) {
    drop_link(now, *call.peer, options_.membership.heartbeat);
  }
  for (const wire::AddressPrefix& prefix : call.wanted) ask_again(prefix, now);
  if (call.kind == CallKind::pages) ask_pages(*call.probed, now + options_.call_timeout);
  if (call.relayed_for) {
    --relayed_probes_;
    reply(*call.relayed_for, {}, out);
  }
}

void Gossip::on_refused_bootstrap(Instant now, std::size_t entry, const Error& error, Outbox& out) {
  const Bootstrap& bootstrap = options_.bootstrap[entry];
  // A refusal may pass: the peer did not know this node, or was busy.
  const bool is_wrong_key = error.code == ErrorCode::forbidden;
  const bool is_final = is_wrong_key && bootstrap.id;
  const bool is_first = !refused_bootstrap_.contains(entry);
  if (const auto pinned = pinned_.find(entry); is_wrong_key && pinned != pinned_.end()) {
    contacts_.erase(pinned->second);
    pinned_.erase(pinned);
  }
  refused_bootstrap_.insert_or_assign(
      entry, is_final ? std::nullopt : std::optional(now + options_.membership.heartbeat));
  if (!is_first && !is_final) return;
  out.emplace_back(membership::Notice{"bootstrap " + bootstrap.address + " is not joined" +
                                      (is_final ? ": " : " for now: ") + error.message()});
}

void Gossip::on_unreachable_bootstrap(std::size_t entry, const Error& error, Outbox& out) {
  if (!unreachable_bootstrap_.insert(entry).second) return;
  out.emplace_back(membership::Notice{"bootstrap " + options_.bootstrap[entry].address +
                                      " cannot be reached, tried again: " + error.message()});
}

void Gossip::notice_mismatch(const EndpointId& peer, std::string_view sentence, Outbox& out) {
  constexpr std::size_t kMismatchedMax = 256;
  if (mismatched_.size() >= kMismatchedMax || !mismatched_.insert(peer).second) return;
  out.emplace_back(
      membership::Notice{"no gossip with " + to_hex(peer) + ": " + std::string(sentence)});
}

void Gossip::expire_calls(Instant now, Outbox& out) {
  while (!calls_.empty() && calls_.begin()->second.deadline <= now) {
    const auto entry = calls_.extract(calls_.begin());
    out.emplace_back(CancelCall{entry.key()});
    on_failure(now, entry.mapped(), {ErrorCode::io, "", "no answer in time"}, out);
  }
}

void Gossip::pull(Instant now, Outbox& out) {
  std::map<EndpointId, Ask> asks;  // ordered: iteration reaches the outbox
  wanted_at_.reset();
  for (auto it = wanted_.begin(); it != wanted_.end();) {
    auto& [prefix, wanted] = *it;
    const bool is_had = wanted.is_announced_only && known_as(prefix).version >= wanted.version;
    if (is_had || (!wanted.is_asked && wanted.attempts >= kPullAttemptsMax)) {
      it = wanted_.erase(it);
      continue;
    }
    if (!wanted.is_asked && wanted.due <= now && !wanted.is_announced_only) {
      const Known known = known_as(prefix);
      if (known.address != nullptr)
        wanted.due = std::max(wanted.due, members_.record_opens(*known.address));
    }
    if (!wanted.is_asked && wanted.due <= now) {
      join_ask(now, prefix, wanted, asks[wanted.sources[wanted.attempts % wanted.sources.size()]]);
    }
    if (!wanted.is_asked && (!wanted_at_ || wanted.due < *wanted_at_)) wanted_at_ = wanted.due;
    ++it;
  }
  for (auto& [source, ask] : asks) send_ask(now, source, std::move(ask), out);
}

void Gossip::join_ask(Instant now, const wire::AddressPrefix& prefix, Wanted& wanted, Ask& ask) {
  if (ask.beats.size() + ask.records.size() >= kPullItemsMax) {
    wanted.due = now + kPullAgain;
    return;
  }
  (wanted.is_announced_only ? ask.beats : ask.records).push_back(prefix);
  wanted.is_asked = true;
  ++wanted.attempts;
}

void Gossip::send_ask(Instant now, const EndpointId& source, Ask ask, Outbox& out) {
  if (const auto link = links_.find(source); link != links_.end() && !ask.beats.empty())
    link->second.is_eager = true;
  wire::GossipMessage message;
  message.wanted = ask.beats;
  message.records_wanted = ask.records;
  Call call{.kind = CallKind::pull, .wanted = std::move(ask.beats)};
  call.wanted.insert(call.wanted.end(), ask.records.begin(), ask.records.end());
  const std::vector<wire::AddressPrefix> asked = call.wanted;
  if (send_to(now, source, std::move(call), message, out)) return;
  for (const wire::AddressPrefix& prefix : asked) ask_again(prefix, now + kPullAgain);
}

void Gossip::probe(Instant now, const ProviderAddress& address, Outbox& out) {
  const membership::Peer* peer = members_.find(address);
  if (peer == nullptr) return;
  send_to(now, peer->key, Call{.kind = CallKind::ping}, {}, out);
  std::size_t asked = 0;
  for (const auto& [through, link] : links_) {
    if (asked >= options_.probes) return;
    if (through == peer->key) continue;
    wire::GossipMessage message{.probe = address};
    if (send_to(now, through, Call{.kind = CallKind::indirect}, message, out)) ++asked;
  }
}

}  // namespace tenzro::gossip
