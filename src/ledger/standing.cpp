#include "tenzro/ledger/standing.hpp"

#include <algorithm>

namespace tenzro::ledger {
namespace {

/// A holder that was never measured is tried at once, but one call at a time.
constexpr Duration kUntried = Duration{1};
constexpr Duration kBeingTried = std::chrono::milliseconds(2);

bool is_within(Instant now, const std::optional<Instant>& then, Duration window) {
  return then && now - *then <= window;
}

}  // namespace

void Standings::make_room() {
  auto oldest = standings_.end();
  for (auto it = standings_.begin(); it != standings_.end(); ++it) {
    if (it->second.in_flight > 0) continue;
    if (oldest == standings_.end() || it->second.last_used < oldest->second.last_used) oldest = it;
  }
  if (oldest != standings_.end()) standings_.erase(oldest);
}

Standing& Standings::at(Instant now, const ProviderAddress& provider) {
  auto it = standings_.find(provider);
  if (it == standings_.end()) {
    if (standings_.size() >= options_.providers_max) make_room();
    it = standings_.emplace(provider, Standing{.reputation = options_.reputation_start}).first;
  }
  it->second.last_used = now;
  return it->second;
}

OpenCall Standings::on_begun(Instant now, const ProviderAddress& provider, std::uint32_t rows) {
  ++at(now, provider).in_flight;
  const std::int64_t cap = options_.hedge_rows_max * options_.hedge_one_in;
  hedge_credit_ = std::min<std::int64_t>(cap, hedge_credit_ + rows);
  return {.provider = provider, .sent = now, .rows = rows};
}

void Standings::on_late(OpenCall& call) {
  if (call.is_late) return;
  call.is_late = true;
  if (const auto it = standings_.find(call.provider); it != standings_.end()) ++it->second.late;
}

Standing* Standings::end(const OpenCall& call) {
  const auto it = standings_.find(call.provider);
  if (it == standings_.end()) return nullptr;
  Standing& standing = it->second;
  if (standing.in_flight > 0) --standing.in_flight;
  if (call.is_late && standing.late > 0) --standing.late;
  return &standing;
}

void Standings::on_answered(Instant now, const OpenCall& call, Instant arrived) {
  Standing* standing = end(call);
  if (standing == nullptr) return;
  standing->service.on_answer(now, arrived - call.sent, call.rows);
  standing->last_answer = now;
  standing->streak = 0;
  standing->lost_streak = 0;
  standing->quarantined_until.reset();
  standing->busy_until.reset();
  standing->stalled_until.reset();
  standing->stall = Duration{0};
}

void Standings::note_stall(Instant now, Standing& standing) const {
  standing.service.on_stall(now);
  // Calls that were on their way together stall once.
  if (standing.stalled_until && now < *standing.stalled_until) return;
  standing.stall = std::clamp(standing.stall * 2, options_.stall_first, options_.stall_max);
  standing.stalled_until = now + standing.stall;
}

void Standings::on_busy(Instant now, const OpenCall& call, std::optional<Duration> retry_after) {
  Standing* standing = end(call);
  if (standing == nullptr) return;
  standing->busy_until = now + retry_after.value_or(options_.busy_default);
}

void Standings::on_abandoned(Instant now, const OpenCall& call) {
  Standing* standing = end(call);
  if (standing != nullptr && call.is_late) note_stall(now, *standing);
}

void Standings::on_failed(Instant now, const OpenCall& call, Failure failure) {
  Standing* standing = end(call);
  if (standing == nullptr) return;
  standing->last_failure = now;
  if (failure != Failure::lost) {
    standing->service.on_stall(now);
    penalise(now, *standing, failure);
    return;
  }
  note_stall(now, *standing);
  if (!is_within(now, standing->last_lost, options_.window)) {
    standing->lost_cost = 0;
    standing->lost_streak = 0;
  }
  standing->last_lost = now;
  if (!suspects_itself(now)) penalise(now, *standing, failure);
  watch_itself(now);
}

void Standings::penalise(Instant now, Standing& standing, Failure failure) const {
  const std::uint32_t price =
      failure == Failure::refused ? options_.refused_cost : options_.stream_cost;
  const std::uint32_t cost = std::min(standing.reputation, price);
  standing.reputation -= cost;
  if (failure == Failure::refused) return;
  ++standing.streak;
  if (failure == Failure::lost) {
    standing.lost_cost += cost;
    ++standing.lost_streak;
  }
  if (standing.streak >= options_.streak_max)
    standing.quarantined_until = now + options_.quarantine;
}

void Standings::watch_itself(Instant now) {
  std::size_t used = 0;
  std::size_t lost = 0;
  for (const auto& [provider, standing] : standings_) {
    used += is_within(now, standing.last_used, options_.window) ? 1U : 0U;
    lost += is_within(now, standing.last_lost, options_.window) ? 1U : 0U;
  }
  if (lost < options_.lost_min || lost * 2 < used) return;
  self_suspect_until_ = now + options_.window;
  for (auto& [provider, standing] : standings_) {
    if (!is_within(now, standing.last_lost, options_.window)) continue;
    standing.reputation += standing.lost_cost;
    standing.streak -= std::min(standing.streak, standing.lost_streak);
    standing.lost_cost = 0;
    standing.lost_streak = 0;
    if (standing.streak < options_.streak_max) standing.quarantined_until.reset();
  }
}

bool Standings::is_mesh_slow(Instant now) const {
  std::size_t at_work = 0;
  std::size_t late = 0;
  for (const auto& [provider, standing] : standings_) {
    const bool answered = is_within(now, standing.last_answer, options_.hedge_max);
    if (standing.in_flight == 0 && !answered) continue;
    ++at_work;
    late += standing.late > 0 ? 1U : 0U;
  }
  // Two that are late may well be the only two of many: others have no call just now.
  return late >= options_.slow_holders_min && late * 2 > at_work;
}

bool Standings::try_hedge(Instant now, std::uint32_t rows) {
  if (hedge_credit_ <= 0 || is_mesh_slow(now)) return false;
  hedge_credit_ -= std::int64_t{rows} * options_.hedge_one_in;
  return true;
}

Duration Standings::hedge_delay(const ProviderAddress& provider, std::uint32_t rows) const {
  const Standing* standing = find(provider);
  if (standing == nullptr || !standing->service.is_measured()) return options_.hedge_default;
  return std::clamp(standing->service.p95(rows) * 2, options_.hedge_min, options_.hedge_max);
}

Duration Standings::patience(const ProviderAddress& provider, std::uint32_t rows) const {
  const Standing* standing = find(provider);
  if (standing == nullptr || !standing->service.is_measured())
    return options_.patience_untried + options_.patience_untried_row * std::int64_t{rows};
  return std::max(hedge_delay(provider, rows) * options_.patience, options_.patience_min);
}

const Standing* Standings::find(const ProviderAddress& provider) const {
  const auto it = standings_.find(provider);
  return it == standings_.end() ? nullptr : &it->second;
}

bool Standings::is_quarantined(Instant now, const ProviderAddress& provider) const {
  const Standing* standing = find(provider);
  return standing != nullptr && standing->quarantined_until && now < *standing->quarantined_until;
}

bool Standings::is_busy(Instant now, const ProviderAddress& provider) const {
  const Standing* standing = find(provider);
  return standing != nullptr && standing->busy_until && now < *standing->busy_until;
}

bool Standings::is_stalled(Instant now, const ProviderAddress& provider) const {
  const Standing* standing = find(provider);
  return standing != nullptr && standing->stalled_until && now < *standing->stalled_until;
}

Duration Standings::stall(Instant now, const ProviderAddress& provider) const {
  return is_stalled(now, provider) ? find(provider)->stall : Duration{0};
}

std::uint64_t Standings::load(Instant now, const ProviderAddress& provider,
                              std::uint32_t rows) const {
  const Standing* standing = find(provider);
  if (standing == nullptr) return 1;
  const bool is_tried = standing->in_flight > 0 || standing->service.is_stalled();
  const Duration unmeasured = is_tried ? kBeingTried : kUntried;
  return (std::uint64_t{standing->in_flight} + 1) * standing->service.weight(now, rows, unmeasured);
}

}  // namespace tenzro::ledger
