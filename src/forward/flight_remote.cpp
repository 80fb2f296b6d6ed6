#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/forward/flight.hpp"

namespace tenzro::forward {
namespace {

work::Transport transport_of(const shards::Provider& provider) {
  constexpr EndpointId kNone{};
  const bool has_quic =
      provider.endpoint_key != kNone && (!provider.addresses.empty() || !provider.http_endpoint);
  if (!has_quic) return work::Transport::http;
  return provider.speaks_exec ? work::Transport::exec : work::Transport::moe;
}

work::Nonce make_nonce(Prng& prng) {
  work::Nonce nonce{};
  for (std::size_t i = 0; i < nonce.size(); i += 8) {
    const std::uint64_t word = prng.next();
    for (std::size_t b = 0; b < 8; ++b)
      nonce[i + b] = static_cast<std::uint8_t>(word >> (8 * b) & 0xFFU);
  }
  return nonce;
}

BlobHash declared_blob(const Part& part, const ProviderAddress& provider) {
  for (const planner::Holder& holder : part.holders) {
    if (holder.provider == provider) return holder.blob;
  }
  return {};
}

}  // namespace

work::Transport Flight::transport_to(const shards::Provider& provider) const {
  return over_http_.contains(provider.address) ? work::Transport::http : transport_of(provider);
}

void Flight::call(Instant now, const ProviderAddress& provider,
                  const std::vector<PartIndex>& wanted, Outbox& out) {
  const shards::Provider& holder = mesh_.view.providers().at(provider);
  const bool carries_many = transport_to(holder) == work::Transport::exec;
  const std::uint32_t width = width_of(parts_[wanted.front()].expert);
  for (std::vector<PartIndex>& carried : group(parts_, wanted, width, carries_many)) {
    std::uint32_t rounds = 0;
    for (const PartIndex i : carried) {
      ++parts_[i].live;
      rounds = std::max(rounds, parts_[i].replans);
    }
    work::RemoteCall call = make_call(holder, carried);
    // Whoever was given up before gets longer now: perhaps all of them are only slow.
    attempts_.begin(now, holder, std::move(call),
                    {.parts = std::move(carried),
                     .deadline = request_.deadline,
                     .patience_factor = std::int64_t{1} << rounds},
                    out);
  }
}

work::RemoteCall Flight::make_call(const shards::Provider& provider,
                                   const std::vector<PartIndex>& carried) {
  const ExpertIndex first = parts_[carried.front()].expert;
  work::RemoteCall call{
      .transport = transport_to(provider),
      .layer = request_.layer,
      .profile = request_.profile,
      .carrier = is_q8_ ? receipts::CarrierKind::q8_0 : receipts::CarrierKind::dense,
      .width = width_of(first),
      .input = reads_hidden(first) ? request_.hidden : expert_input_,
      .nonce = make_nonce(mesh_.prng),
      .router = mesh_.router,
      .provider = provider.address};
  if (call.transport != work::Transport::http) call.holder = provider.endpoint_key;
  for (const PartIndex i : carried) {
    const Part& part = parts_[i];
    if (call.batches.empty() || call.batches.back().expert != part.expert)
      call.batches.push_back({part.expert, {}, declared_blob(part, provider.address)});
    std::vector<std::uint32_t>& rows = call.batches.back().rows;
    rows.insert(rows.end(), part.rows.begin(), part.rows.end());
  }
  return call;
}

void Flight::on_call_result(Instant now, PeerCallId id, const work::CallResult& result,
                            Outbox& out) {
  if (phase_ == Phase::finished) return;
  auto verdict = attempts_.on_call_result(now, id, result, out);
  if (verdict) on_verdict(now, std::move(*verdict), out);
}

void Flight::on_verdict(Instant now, Verdict verdict, Outbox& out) {
  if (phase_ != Phase::running) return;
  for (const PartIndex i : verdict.parts) --parts_[i].live;
  if (const auto* reply = std::get_if<work::VerifiedReply>(&verdict.outcome)) {
    accept(verdict, *reply);
    attempts_.cancel_unwanted(now, parts_, out);
  } else {
    note_setback(verdict, std::get<Setback>(verdict.outcome));
  }
  std::erase_if(verdict.parts,
                [&](PartIndex i) { return parts_[i].is_over() || parts_[i].live > 0; });
  tally_.failovers += static_cast<std::uint32_t>(verdict.parts.size());
  place(now, std::move(verdict.parts), out);
  advance(out);
}

void Flight::accept(const Verdict& verdict, const work::VerifiedReply& reply) {
  std::uint32_t& count = verdict.transport == work::Transport::http ? tally_.http : tally_.iroh;
  for (const auto& [index, values] : distribute(parts_, verdict.parts, reply.outputs)) {
    if (finish_part(index, values)) ++count;
  }
}

void Flight::note_setback(const Verdict& verdict, const Setback& setback) {
  const bool is_busy = setback.kind == Setback::Kind::busy;
  if (setback.kind == Setback::Kind::failed) {
    excluded_.insert(verdict.provider);
    const bool is_lost = setback.error.code == ErrorCode::io;
    if (is_lost && verdict.transport != work::Transport::http) quic_lost_.insert(verdict.provider);
    ++tally_.failures;
  }
  tally_.busy += is_busy ? 1U : 0U;
  Error error = setback.error;
  error.detail += " (holder " + to_hex(verdict.provider) + ")";
  for (const PartIndex i : verdict.parts) {
    Part& part = parts_[i];
    part.met_busy = part.met_busy || is_busy;
    part.last_error = holder_error({request_.layer.layer, part.expert}, error);
  }
}

bool Flight::has_standby(Instant now, Part part) const {
  if (part.holders.size() < 2) return false;
  return part.replans < mesh_.limits.replans_max || next_holder(now, part) != nullptr;
}

void Flight::hedge(Instant now, const std::vector<PartIndex>& late, Outbox& out) {
  using Key = std::pair<ProviderAddress, bool>;
  std::map<Key, std::vector<PartIndex>> seconds;  // ordered: reaches the outbox
  for (const PartIndex i : late) {
    Part& part = parts_[i];
    if (part.is_over() || part.live != 1) continue;
    const std::size_t next = part.next;
    const bool met_busy = part.met_busy;
    const planner::Holder* holder = next_holder(now, part);
    part.next = next;  // taken only if the budget allows
    part.met_busy = met_busy;
    if (holder == nullptr || holder->provider == mesh_.self) continue;
    if (mesh_.standings.is_quarantined(now, holder->provider)) continue;
    seconds[{holder->provider, reads_hidden(part.expert)}].push_back(i);
  }
  for (auto& [key, wanted] : seconds) {
    std::uint32_t rows = 0;
    for (const PartIndex i : wanted) rows += static_cast<std::uint32_t>(parts_[i].rows.size());
    if (!mesh_.standings.try_hedge(now, rows)) continue;
    for (const PartIndex i : wanted) (void)next_holder(now, parts_[i]);
    ++tally_.hedges;
    call(now, key.first, wanted, out);
  }
}

}  // namespace tenzro::forward
