#include "tenzro/ledger/service_time.hpp"

#include <algorithm>

namespace tenzro::ledger {
namespace {

// Limits of one observation, so that products stay inside 64 bits.
constexpr std::int64_t kRowsMax = 1 << 16;
constexpr std::int64_t kTookMaxNs = 600'000'000'000;
constexpr std::int64_t kRatioMax = UINT16_MAX;
constexpr unsigned kFadesMax = 40;

std::int64_t clamp_rows(std::uint32_t rows) {
  return std::clamp<std::int64_t>(rows, 1, kRowsMax);
}

Duration to_duration(std::int64_t nanoseconds) {
  return Duration{nanoseconds / 1000};
}

}  // namespace

void ServiceTime::on_answer(Instant now, Duration took, std::uint32_t rows) {
  const std::int64_t n = clamp_rows(rows);
  const std::int64_t took_ns =
      std::clamp<std::int64_t>(took.count(), 1, kTookMaxNs / 1000) * std::int64_t{1000};
  const std::int64_t expected_ns = per_call_ns_ + n * per_row_ns_;
  const bool is_first = !is_measured();
  const std::int64_t ratio =
      is_first ? 100 : took_ns * 100 / std::max<std::int64_t>(expected_ns, 1);
  ratios_[ratios_seen_ % kRatiosKept] = static_cast<std::uint16_t>(std::min(ratio, kRatioMax));
  ++ratios_seen_;
  // Normalised least mean squares over (1, n): the expectation moves by error / divisor.
  const std::int64_t error = (took_ns - expected_ns) / (is_first ? 1 : 4);
  const std::int64_t norm = 1 + n * n;
  per_call_ns_ = std::max<std::int64_t>(0, per_call_ns_ + error / norm);
  per_row_ns_ = std::max<std::int64_t>(0, per_row_ns_ + error * n / norm);
  stalls_ = 0;
  touched_ = now;
}

void ServiceTime::on_stall(Instant now) {
  stalls_ = std::min(stalls_ + 1, kStallsMax);
  touched_ = now;
}

Duration ServiceTime::expected(std::uint32_t rows) const {
  return to_duration(per_call_ns_ + clamp_rows(rows) * per_row_ns_);
}

Duration ServiceTime::p95(std::uint32_t rows) const {
  const std::size_t count = std::min(ratios_seen_, kRatiosKept);
  if (count == 0) return Duration{0};
  std::array<std::uint16_t, kRatiosKept> sorted = ratios_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(sorted.begin(), end);
  const std::size_t at = (count * 95 + 99) / 100 - 1;  // nearest rank
  return Duration{expected(rows).count() * sorted[at] / 100};
}

std::uint64_t ServiceTime::weight(Instant now, std::uint32_t rows, Duration unmeasured) const {
  const Duration base = is_measured() ? expected(rows) : unmeasured;
  std::uint64_t weight = static_cast<std::uint64_t>(base.count()) << stalls_;
  const Duration age = now - touched_;
  if (is_measured() || stalls_ > 0) {
    const auto fades = static_cast<std::uint64_t>(std::max<std::int64_t>(0, age / kFadeAfter));
    weight >>= std::min<std::uint64_t>(fades, kFadesMax);
  }
  return std::max<std::uint64_t>(weight, 1);
}

}  // namespace tenzro::ledger
