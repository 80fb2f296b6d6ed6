#pragma once
/// \file
/// What this node thinks of the holders it called: reputation, quarantine, load, speed. In memory.
///
/// Kept per provider that was ever called. Rules
///  - Reputation is 0..1000 and starts at 0. An error for an answer costs 5; silence, a broken
///  stream or a bad receipt costs 15. Nothing here raises it: that is for settled payments.
///  - Three of the latter in a row put a provider in quarantine for five minutes: planners take it
///  last. An answer ends streak and quarantine.
///  - `busy` is not a failure: the provider is taken after others until it said to come back.
///  - Who let a call become late and was given up, or was lost, is stalled: planners take it after
///  others, for `stall_first` and twice as long each time in a row, until it answers. Why: one call
///  finds out that a holder is gone or slow; the next ones need not.
///  - When at least three providers, and at least half of those called in the last `window`, were
///  lost in it, this node suspects itself: what losses cost in that window is given back, and
///  further ones cost nothing until a window later. Why: our own broken link must not ruin the
///  reputation of everybody else. A bad receipt is never excused so.
///  - A second holder is asked for slow work only within a budget: one row in `hedge_one_in` of
///  what is sent, saved up to `hedge_rows_max`, one call ahead at most. Never while most of three
///  or more holders at work are late: then the mesh is slow, and more work makes it slower.
/// Bounds: `providers_max`; beyond it the one that was used longest ago and has no call is
/// forgotten. Cost: O(log n) an event; O(n) a loss, a hedge, a forgotten one. Thread: the owner's
/// only. Pure.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/ledger/service_time.hpp"

namespace tenzro::ledger {

enum class Failure : std::uint8_t {
  refused,  ///< it answered with an error
  lost,     ///< unreachable, reset, silent past the deadline
  lied      ///< not what was asked for, or a bad receipt
};

struct Options {
  std::size_t providers_max = 10'000;
  std::uint32_t reputation_start = 0;
  std::uint32_t reputation_max = 1000;
  std::uint32_t refused_cost = 5;
  std::uint32_t stream_cost = 15;
  std::uint32_t streak_max = 3;
  Duration quarantine = std::chrono::minutes(5);
  Duration window = std::chrono::seconds(10);
  std::uint32_t lost_min = 3;
  std::uint32_t hedge_one_in = 20;
  std::int64_t hedge_rows_max = 1 << 16;
  Duration hedge_default = std::chrono::milliseconds(50);
  Duration hedge_min = std::chrono::milliseconds(5);
  Duration hedge_max = std::chrono::seconds(1);
  std::uint32_t slow_holders_min = 3;
  Duration stall_first = std::chrono::milliseconds(500);
  Duration stall_max = std::chrono::seconds(16);
  /// A call older than this many hedge delays, and than `patience_min`, may be given up for another
  /// holder. That costs no budget: it is a shorter attempt timeout, not a second opinion, though
  /// what the first holder did meanwhile is lost.
  std::int64_t patience = 4;
  Duration patience_min = std::chrono::milliseconds(50);
  /// Of a provider that was never measured, and more for each row: a guess.
  Duration patience_untried = std::chrono::milliseconds(200);
  Duration patience_untried_row = std::chrono::milliseconds(1);
  /// How long a busy holder is left alone where it does not say.
  Duration busy_default = std::chrono::milliseconds(100);
};

/// A call on its way, kept by whoever waits for it and ended with exactly one of Standings' ends.
struct OpenCall {
  ProviderAddress provider{};
  Instant sent;
  std::uint32_t rows = 0;
  bool is_late = false;
};

struct Standing {
  std::uint32_t reputation = 0;
  std::uint32_t streak = 0;  ///< stream failures in a row
  std::optional<Instant> quarantined_until;
  std::optional<Instant> busy_until;
  std::optional<Instant> stalled_until;
  Duration stall{0};  ///< how long the last stall counted
  std::uint32_t in_flight = 0;
  std::uint32_t late = 0;
  ServiceTime service;
  std::optional<Instant> last_used;
  std::optional<Instant> last_answer;
  std::optional<Instant> last_failure;
  std::optional<Instant> last_lost;
  // What losses cost in the current window, to be given back.
  std::uint32_t lost_cost = 0;
  std::uint32_t lost_streak = 0;
};

class Standings {
 public:
  explicit Standings(const Options& options) : options_(options) {}

  [[nodiscard]] OpenCall on_begun(Instant now, const ProviderAddress& provider, std::uint32_t rows);
  /// Its hedge delay passed without an answer.
  void on_late(OpenCall& call);
  void on_answered(Instant now, const OpenCall& call, Instant arrived);
  void on_busy(Instant now, const OpenCall& call, std::optional<Duration> retry_after);
  void on_failed(Instant now, const OpenCall& call, Failure failure);
  /// Nobody waits any more; no fault of the provider's, but being late is remembered as a stall.
  void on_abandoned(Instant now, const OpenCall& call);

  /// True, and paid for, where a second holder may be asked for that many rows.
  [[nodiscard]] bool try_hedge(Instant now, std::uint32_t rows);
  /// Most of three or more holders at work are late.
  [[nodiscard]] bool is_mesh_slow(Instant now) const;
  [[nodiscard]] Duration hedge_delay(const ProviderAddress& provider, std::uint32_t rows) const;
  /// After that a call may be given up.
  [[nodiscard]] Duration patience(const ProviderAddress& provider, std::uint32_t rows) const;

  /// Null where the provider was never called.
  [[nodiscard]] const Standing* find(const ProviderAddress& provider) const;
  [[nodiscard]] bool is_quarantined(Instant now, const ProviderAddress& provider) const;
  [[nodiscard]] bool is_busy(Instant now, const ProviderAddress& provider) const;
  [[nodiscard]] bool is_stalled(Instant now, const ProviderAddress& provider) const;
  /// How long its last stall counts, the longer the more often in a row; zero where it is not
  /// stalled.
  [[nodiscard]] Duration stall(Instant now, const ProviderAddress& provider) const;
  /// (calls in flight + 1) · expected time of that many rows: the lower, the better.
  [[nodiscard]] std::uint64_t load(Instant now, const ProviderAddress& provider,
                                   std::uint32_t rows) const;

  [[nodiscard]] bool suspects_itself(Instant now) const {
    return self_suspect_until_ && now < *self_suspect_until_;
  }

  [[nodiscard]] std::size_t size() const { return standings_.size(); }

 private:
  Standing& at(Instant now, const ProviderAddress& provider);
  void make_room();
  /// The standing, its call ended; null where it was forgotten.
  Standing* end(const OpenCall& call);
  void penalise(Instant now, Standing& standing, Failure failure) const;
  void note_stall(Instant now, Standing& standing) const;
  void watch_itself(Instant now);

  Options options_;
  std::map<ProviderAddress, Standing> standings_;
  std::optional<Instant> self_suspect_until_;
  std::int64_t hedge_credit_ = 1;  ///< in rows times hedge_one_in
};

}  // namespace tenzro::ledger
