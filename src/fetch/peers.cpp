#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "transfer.hpp"

namespace tenzro::fetch {

void Transfer::add_sources(const std::vector<Source>& sources) {
  for (const Source& source : sources) {
    if (peers_.size() >= shared_.options.sources_max) return;
    const bool is_known = std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      return peer.source.id == source.id;
    });
    if (!is_known) peers_.push_back({.source = source});
  }
}

void Transfer::ask_sizes(Instant now, Outbox& out) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (peer.standing != Standing::unasked || peer.paused_until > now) continue;
    peer.standing = Standing::asked;
    call(now, i, std::nullopt, {.hash = hash_}, out);
  }
}

void Transfer::call(Instant now, std::size_t peer, std::optional<std::uint32_t> piece,
                    const wire::BlobRequest& request, Outbox& out) {
  const PeerCallId id = shared_.calls.next();
  Call& made = calls_.emplace(id, Call{peer, piece, request, now + shared_.options.call_timeout})
                   .first->second;
  const Source& source = peers_[peer].source;
  if (source.addresses.empty() && !source.http_endpoint.empty()) return call_http(id, made, out);
  out.emplace_back(work::SendCall{id,
                                  {source.id, source.addresses},
                                  wire::Protocol::blob,
                                  {wire::encode_blob_request(request)}});
}

void Transfer::on_reply(Instant now, PeerCallId id, const work::CallResult& result, Outbox& out) {
  seen_ = now;
  const auto extracted = calls_.extract(id);
  if (!extracted) return;
  const Call& call = extracted.mapped();
  Peer& peer = peers_[call.peer];
  if (!result && (result.error().code == ErrorCode::forbidden ||  // another key
                  result.error().code == ErrorCode::runtime))     // it refused
    return refuse(call, echo(result.error().message()), out);
  if (!result && result.error().code == ErrorCode::busy)  // a limit of this node
    return take_reply(now, call, {.status = wire::BlobStatus::busy}, out);
  if (!result) return on_failure(now, call, echo(result.error().message()), out);
  if (result->from != peer.source.id) return refuse(call, "is not who answers there", out);
  const Result<wire::BlobReply> reply = wire::decode_blob_reply(result->bytes, call.request);
  if (!reply)
    return refuse(call, "gave no answer of the protocol: " + reply.error().message(), out);
  if (reply->status == wire::BlobStatus::not_found) return refuse(call, "does not have it", out);
  if (reply->status == wire::BlobStatus::error) {
    std::string said = "said: " + echo(reply->error);
    if (call.piece || ++peer.refusals >= shared_.options.refusals_max)
      return refuse(call, std::move(said), out);
    peer.why = std::move(said);
    peer.standing = Standing::unasked;
    return pause(now, peer);
  }
  take_reply(now, call, *reply, out);
}

void Transfer::refuse(const Call& call, std::string why, Outbox& out) {
  if (call.piece) {
    --peers_[call.peer].in_flight;
    give_back(*call.piece);
  }
  drop(call.peer, std::move(why), out);
}

void Transfer::take_reply(Instant now, const Call& call, const wire::BlobReply& reply,
                          Outbox& out) {
  Peer& peer = peers_[call.peer];
  if (reply.status == wire::BlobStatus::busy) {
    peer.why = "is busy";
    if (peer.paused_until <= now) pause(now, peer);  // calls that met it together count once
    if (!call.piece) {
      peer.standing = Standing::unasked;
    } else {
      --peer.in_flight;
      give_back(*call.piece);
    }
    return;
  }
  peer.failures = 0;
  peer.pause = Duration{};
  if (call.piece) {
    --peer.in_flight;
    on_bytes(now, call, reply, out);
  } else {
    on_size(now, call.peer, reply.size_bytes, out);
  }
}

void Transfer::on_size(Instant now, std::size_t index, std::uint64_t size_bytes, Outbox& out) {
  Peer& peer = peers_[index];
  if (size_bytes == 0 || size_bytes > shared_.options.blob_bytes_max) {
    return drop(index, "says it has " + std::to_string(size_bytes) + " bytes, which no blob has",
                out);
  }
  peer.size_bytes = size_bytes;
  if (size_bytes_ != 0) {
    peer.standing = size_bytes == size_bytes_ ? Standing::ready : Standing::aside;
    if (peer.standing == Standing::aside)
      peer.why = "says it has " + std::to_string(size_bytes) + " bytes, unlike others";
    return;
  }
  size_bytes_ = size_bytes;
  peer.standing = Standing::ready;
  progress_at_ = now;
  refuse_small_waiters(out);
  if (!is_over()) open(out);
}

void Transfer::on_bytes(Instant /*now*/, const Call& call, const wire::BlobReply& reply,
                        Outbox& out) {
  if (reply.size_bytes != size_bytes_) {
    give_back(*call.piece);
    return drop(call.peer, "tells one size now and another then", out);
  }
  shared_.totals.bytes_received += reply.bytes.size();
  store(work::WritePartial{hash_, call.request.offset, reply.bytes}, {call.piece, call.peer}, out);
}

void Transfer::on_failure(Instant now, const Call& call, std::string why, Outbox& out) {
  Peer& peer = peers_[call.peer];
  const bool is_unknown = peer.source.addresses.empty() && peer.source.http_endpoint.empty();
  if (!call.piece && is_unknown) {
    peer.why = std::move(why);
    peer.standing = Standing::unasked;
    return pause(now, peer);
  }
  if (!call.piece) return drop(call.peer, std::move(why), out);
  --peer.in_flight;
  give_back(*call.piece);
  peer.why = std::move(why);
  if (peer.paused_until > now) return;  // calls that were lost together count once
  if (++peer.failures >= shared_.options.failures_max)
    return drop(call.peer, std::string(peer.why), out);
  pause(now, peer);
}

void Transfer::pause(Instant now, Peer& peer) {
  peer.pause = std::clamp(peer.pause * 2, shared_.options.pause_min, shared_.options.pause_max);
  peer.paused_until = now + peer.pause;
}

void Transfer::drop(std::size_t index, std::string why, Outbox& out) {
  Peer& peer = peers_[index];
  if (peer.standing == Standing::gone) return;
  peer.standing = Standing::gone;
  peer.why = std::move(why);
  ++shared_.totals.sources_dropped;
  if (auditor_ == index) auditor_.reset();
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second.peer != index) {
      ++it;
      continue;
    }
    out.emplace_back(work::CancelCall{it->first});
    if (it->second.piece) give_back(*it->second.piece);
    it = calls_.erase(it);
  }
  peer.in_flight = 0;
}

void Transfer::accuse(std::size_t index, Outbox& out) {
  Peer& peer = peers_[index];
  if (peer.has_lied) return;
  peer.has_lied = true;
  ++shared_.totals.liars;
  out.emplace_back(SourceLied{peer.source.id, hash_});
  drop(index, "gave bytes that are not the blob's", out);
  peer.why = "gave bytes that are not the blob's";
}

bool Transfer::has_usable_peer() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.standing == Standing::unasked || peer.standing == Standing::asked ||
           peer.standing == Standing::ready;
  });
}

/// The least loaded, the next in turn among equals.
std::optional<std::size_t> Transfer::peer_for_piece(Instant now) const {
  if (is_auditing_ && !auditor_) return std::nullopt;
  std::optional<std::size_t> best;
  for (std::size_t step = 1; step <= peers_.size(); ++step) {
    const std::size_t i = (last_peer_ + step) % peers_.size();
    const Peer& peer = peers_[i];
    if (auditor_ && i != *auditor_) continue;
    if (peer.standing != Standing::ready || peer.paused_until > now) continue;
    if (peer.in_flight >= shared_.options.source_pieces_max) continue;
    if (!best || peer.in_flight < peers_[*best].in_flight) best = i;
  }
  return best;
}

/// Those that told the size that the first of them told. False where nobody is left.
bool Transfer::revive_aside() {
  size_bytes_ = 0;
  for (Peer& peer : peers_) {
    if (peer.standing != Standing::aside) continue;
    if (size_bytes_ == 0) size_bytes_ = peer.size_bytes;
    if (peer.size_bytes == size_bytes_) peer.standing = Standing::ready;
  }
  is_auditing_ = false;
  auditor_.reset();
  return size_bytes_ != 0;
}

}  // namespace tenzro::fetch
