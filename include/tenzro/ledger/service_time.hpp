#pragma once
/// \file
/// How long one holder takes to answer a call, as this node saw it.
///
/// Rules
///  - A call of n expert rows is expected to take `per call + n · per row`. Both are moved by a
///  quarter of each observation's error, split so that small calls teach the first and large ones
///  the second.
///  - The tail is the 95th percentile of (took / expected) over the latest `kRatiosKept` answers.
///  Why a ratio: a prefill batch takes longer than a decode step without being late.
///  - A call that was given up is no observation, but a stall: each in a row doubles what a planner
///  counts with, up to `kStallsMax` times, until an answer comes.
///  - What was measured fades: it halves every `kFadeAfter` without a call. Why: a holder that was
///  slow once would otherwise never be tried again.
/// Integers only. Cost: O(kRatiosKept) a tail. Thread: the owner's only. Pure.
#include <array>
#include <cstddef>
#include <cstdint>

#include "tenzro/base/time.hpp"

namespace tenzro::ledger {

class ServiceTime {
 public:
  static constexpr std::size_t kRatiosKept = 32;
  static constexpr unsigned kStallsMax = 10;
  static constexpr Duration kFadeAfter = std::chrono::seconds(30);

  void on_answer(Instant now, Duration took, std::uint32_t rows);
  void on_stall(Instant now);

  [[nodiscard]] bool is_measured() const { return ratios_seen_ > 0; }

  [[nodiscard]] bool is_stalled() const { return stalls_ > 0; }

  [[nodiscard]] Duration expected(std::uint32_t rows) const;
  [[nodiscard]] Duration p95(std::uint32_t rows) const;
  /// What a planner counts with: at least a microsecond. `unmeasured` stands where nothing is
  /// known.
  [[nodiscard]] std::uint64_t weight(Instant now, std::uint32_t rows, Duration unmeasured) const;

 private:
  std::int64_t per_call_ns_ = 0;
  std::int64_t per_row_ns_ = 0;
  std::array<std::uint16_t, kRatiosKept> ratios_{};  ///< took / expected, in hundredths
  std::size_t ratios_seen_ = 0;
  unsigned stalls_ = 0;
  Instant touched_;
};

}  // namespace tenzro::ledger
