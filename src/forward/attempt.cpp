#include "tenzro/forward/attempt.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/exec_message.hpp"

namespace tenzro::forward {
namespace {

/// A reply that says `busy` is a few fields and a text.
constexpr std::size_t kBusyReplyBytesMax = wire::kExecTextBytesMax + 256;
/// No holder is left alone for longer because it said so.
constexpr Duration kBusyMax = std::chrono::minutes(1);

struct Busy {
  std::optional<Duration> retry_after;
  std::string text;
};

/// What a holder says instead of serving; none for every other reply, which is for a worker to
/// read.
std::optional<Busy> busy_of(const work::RemoteCall& call, const BufferRef& reply) {
  if (call.transport != work::Transport::exec || reply.empty()) return std::nullopt;
  if (reply.size() > kBusyReplyBytesMax) return std::nullopt;
  const auto read = wire::decode_exec_reply(reply, call.width);
  if (!read || read->status != wire::ExecStatus::busy) return std::nullopt;
  Busy busy{.text = echo(read->text)};
  if (read->retry_after_ms != 0) {
    busy.retry_after =
        std::min<Duration>(std::chrono::milliseconds(read->retry_after_ms), kBusyMax);
  }
  return busy;
}

/// What a call that ended without a reply says of its holder.
ledger::Failure failure_of(ErrorCode code) {
  if (code == ErrorCode::forbidden) return ledger::Failure::lied;
  return code == ErrorCode::runtime ? ledger::Failure::refused : ledger::Failure::lost;
}

}  // namespace

void Attempts::begin(Instant now, const shards::Provider& provider, work::RemoteCall call,
                     Terms terms, Outbox& out) {
  Attempt attempt{.id = AttemptId{++last_},
                  .parts = std::move(terms.parts),
                  .patience_factor = terms.patience_factor};
  for (const work::RemoteCall::Batch& batch : call.batches)
    attempt.rows += static_cast<std::uint32_t>(batch.rows.size());
  attempt.open = mesh_.standings.on_begun(now, provider.address, attempt.rows);
  attempt.deadline = std::min(terms.deadline, now + mesh_.limits.attempt_timeout);
  if (call.transport == work::Transport::http) {
    attempt.http_endpoint = provider.http_endpoint.value_or("");
  } else {
    attempt.target = {provider.endpoint_key, provider.addresses};
  }
  attempt.call = std::make_shared<const work::RemoteCall>(std::move(call));
  attempt.job = mesh_.jobs.next();
  by_job_.emplace(attempt.job, attempt.id);
  out.emplace_back(Run{attempt.job, work::EncodeCall{attempt.call, attempt.deadline - now}});
  attempts_.emplace(attempt.id, std::move(attempt));
}

std::optional<Verdict> Attempts::on_job_done(Instant now, JobId id, const work::JobResult& result,
                                             Outbox& out) {
  const auto owner = by_job_.find(id);
  if (owner == by_job_.end()) return std::nullopt;
  const auto it = attempts_.find(owner->second);
  by_job_.erase(owner);
  TENZRO_ASSERT(it != attempts_.end());
  Attempt& attempt = it->second;
  if (!result) {
    if (attempt.arrived) return fail_reply(now, it, result.error());
    mesh_.standings.on_abandoned(now, attempt.open);  // the holder was not asked
    return end(it, Setback{Setback::Kind::ours, result.error()});
  }
  if (const auto* encoded = std::get_if<work::EncodedCall>(&*result)) {
    send(now, attempt, *encoded, out);
    return std::nullopt;
  }
  mesh_.standings.on_answered(now, attempt.open, attempt.arrived.value_or(now));
  return end(it, std::get<work::VerifiedReply>(*result));
}

void Attempts::send(Instant now, Attempt& attempt, const work::EncodedCall& encoded, Outbox& out) {
  const PeerCallId id = mesh_.calls.next();
  attempt.peer_call = id;
  attempt.carrier = encoded.carrier;
  attempt.open.sent = now;
  by_call_.emplace(id, attempt.id);
  if (mesh_.limits.hedges) {
    attempt.hedge_at = now + mesh_.standings.hedge_delay(attempt.open.provider, attempt.rows);
    attempt.give_up_at = now + mesh_.standings.patience(attempt.open.provider, attempt.rows) *
                                   attempt.patience_factor;
  }
  if (attempt.call->transport == work::Transport::http) {
    // One part: a POST has no frame around its body.
    BufferRef body = encoded.request.empty() ? BufferRef() : encoded.request.front();
    out.emplace_back(SendHttpCall{id, attempt.http_endpoint, std::move(body)});
    return;
  }
  const auto protocol =
      attempt.call->transport == work::Transport::exec ? wire::Protocol::exec : wire::Protocol::moe;
  out.emplace_back(SendCall{id, attempt.target, protocol, encoded.request});
}

std::optional<Verdict> Attempts::on_call_result(Instant now, PeerCallId id,
                                                const work::CallResult& result, Outbox& out) {
  const auto owner = by_call_.find(id);
  if (owner == by_call_.end()) return std::nullopt;
  const auto it = attempts_.find(owner->second);
  by_call_.erase(owner);
  TENZRO_ASSERT(it != attempts_.end());
  Attempt& attempt = it->second;
  attempt.peer_call.reset();
  attempt.hedge_at.reset();
  attempt.give_up_at.reset();
  if (!result) return fail_call(now, it, result.error());
  if (const auto busy = busy_of(*attempt.call, result->bytes)) {
    mesh_.standings.on_busy(now, attempt.open, busy->retry_after);
    return end(it, Setback{Setback::Kind::busy, {ErrorCode::busy, "", busy->text}});
  }
  attempt.arrived = now;
  attempt.job = mesh_.jobs.next();
  by_job_.emplace(attempt.job, attempt.id);
  out.emplace_back(
      Run{attempt.job, work::VerifyReply{attempt.call, result->bytes, attempt.carrier}});
  return std::nullopt;
}

Verdict Attempts::end(Map::iterator it, std::variant<work::VerifiedReply, Setback> outcome) {
  Attempt& attempt = it->second;
  by_job_.erase(attempt.job);
  if (attempt.peer_call) by_call_.erase(*attempt.peer_call);
  Verdict verdict{attempt.open.provider, attempt.call->transport, std::move(attempt.parts),
                  std::move(outcome)};
  attempts_.erase(it);
  return verdict;
}

/// The network has no reply.
Verdict Attempts::fail_call(Instant now, Map::iterator it, const Error& error) {
  const ledger::OpenCall& open = it->second.open;
  if (error.code == ErrorCode::busy || error.code == ErrorCode::cancelled) {
    // This node's own queue or end; nothing is known of the holder.
    mesh_.standings.on_abandoned(now, open);
    const bool is_busy = error.code == ErrorCode::busy;
    return end(it, Setback{is_busy ? Setback::Kind::busy : Setback::Kind::ours, error});
  }
  mesh_.standings.on_failed(now, open, failure_of(error.code));
  return end(it, Setback{Setback::Kind::failed, error});
}

/// The reply is not one.
Verdict Attempts::fail_reply(Instant now, Map::iterator it, const Error& error) {
  const ledger::OpenCall& open = it->second.open;
  switch (error.code) {
    case ErrorCode::busy:
      mesh_.standings.on_busy(now, open, std::nullopt);
      return end(it, Setback{Setback::Kind::busy, error});
    case ErrorCode::cancelled:
      mesh_.standings.on_abandoned(now, open);
      return end(it, Setback{Setback::Kind::ours, error});
    case ErrorCode::runtime:
      mesh_.standings.on_failed(now, open, ledger::Failure::refused);
      break;
    default:
      mesh_.standings.on_failed(now, open, ledger::Failure::lied);
  }
  return end(it, Setback{Setback::Kind::failed, error});
}

std::vector<Verdict> Attempts::on_tick(Instant now, Outbox& out) {
  std::vector<Verdict> verdicts;
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    const auto here = it++;
    Attempt& attempt = here->second;
    // Once the reply is here, what is left is this node's own work.
    if (now < attempt.deadline || attempt.arrived) continue;
    const Error error{ErrorCode::infrastructure, "", "no reply within the attempt's time"};
    if (!attempt.peer_call) {
      mesh_.standings.on_abandoned(now, attempt.open);
      verdicts.push_back(end(here, Setback{Setback::Kind::ours, error}));
      continue;
    }
    out.emplace_back(CancelCall{*attempt.peer_call});
    mesh_.standings.on_failed(now, attempt.open, ledger::Failure::lost);
    verdicts.push_back(end(here, Setback{Setback::Kind::failed, error}));
  }
  return verdicts;
}

std::vector<std::vector<PartIndex>> Attempts::take_late(Instant now) {
  std::vector<std::vector<PartIndex>> late;
  for (auto& [id, attempt] : attempts_) {
    if (!attempt.hedge_at || now < *attempt.hedge_at) continue;
    attempt.hedge_at.reset();
    mesh_.standings.on_late(attempt.open);
    late.push_back(attempt.parts);
  }
  return late;
}

std::vector<Verdict> Attempts::give_up(Instant now,
                                       const std::function<bool(PartIndex)>& is_replaceable,
                                       Outbox& out) {
  std::vector<Verdict> verdicts;
  const bool is_mesh_slow = mesh_.standings.is_mesh_slow(now);  // the next one would be as late
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    const auto here = it++;
    Attempt& attempt = here->second;
    if (!attempt.give_up_at || now < *attempt.give_up_at) continue;
    attempt.give_up_at = now + (now - attempt.open.sent);  // looked at again at twice its age
    if (is_mesh_slow) continue;
    if (!std::all_of(attempt.parts.begin(), attempt.parts.end(), is_replaceable)) continue;
    out.emplace_back(CancelCall{*attempt.peer_call});
    mesh_.standings.on_late(attempt.open);
    mesh_.standings.on_abandoned(now, attempt.open);
    verdicts.push_back(
        end(here, Setback{Setback::Kind::ours,
                          {ErrorCode::infrastructure, "", "no reply within the usual time"}}));
  }
  return verdicts;
}

void Attempts::cancel(Instant now, Map::iterator it, Outbox& out) {
  Attempt& attempt = it->second;
  if (attempt.peer_call) {
    out.emplace_back(CancelCall{*attempt.peer_call});
    by_call_.erase(*attempt.peer_call);
  }
  by_job_.erase(attempt.job);
  mesh_.standings.on_abandoned(now, attempt.open);
  attempts_.erase(it);
}

void Attempts::cancel_unwanted(Instant now, const std::vector<Part>& parts, Outbox& out) {
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    const auto here = it++;
    const std::vector<PartIndex>& carried = here->second.parts;
    const bool is_wanted = std::any_of(carried.begin(), carried.end(),
                                       [&](PartIndex p) { return !parts[p].is_over(); });
    if (!is_wanted) cancel(now, here, out);
  }
}

void Attempts::cancel_all(Instant now, Outbox& out) {
  while (!attempts_.empty()) cancel(now, attempts_.begin(), out);
}

std::optional<Instant> Attempts::next_deadline() const {
  std::optional<Instant> earliest;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.arrived) continue;
    const Instant next = std::min({attempt.deadline, attempt.hedge_at.value_or(attempt.deadline),
                                   attempt.give_up_at.value_or(attempt.deadline)});
    if (!earliest || next < *earliest) earliest = next;
  }
  return earliest;
}

}  // namespace tenzro::forward
