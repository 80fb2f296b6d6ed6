#include "tenzro/fetch/token_bucket.hpp"

namespace tenzro::fetch {
namespace {

constexpr std::uint64_t kMicrosPerSecond = 1'000'000;

}  // namespace

void TokenBucket::fill(Instant now) {
  // A longer pause fills the bucket as well; and the product below fits.
  const auto fills_in = static_cast<std::int64_t>(bytes_max_ * kMicrosPerSecond / bytes_per_s_ + 1);
  const std::int64_t passed = std::min<std::int64_t>((now - filled_).count(), fills_in);
  if (passed <= 0) return;
  const std::uint64_t added = bytes_per_s_ * static_cast<std::uint64_t>(passed) / kMicrosPerSecond;
  if (added == 0) return;  // the time that passed keeps counting
  bytes_ = std::min(bytes_max_, bytes_ + added);
  filled_ = now;
}

bool TokenBucket::take(Instant now, std::uint64_t bytes) {
  if (bytes_per_s_ == 0) return true;
  fill(now);
  if (bytes_ < bytes) return false;
  bytes_ -= bytes;
  return true;
}

Instant TokenBucket::when(Instant now, std::uint64_t bytes) const {
  if (bytes_per_s_ == 0 || bytes_ >= bytes) return now;
  const std::uint64_t wait = (bytes - bytes_) * kMicrosPerSecond / bytes_per_s_ + 1;
  return std::max(now, filled_ + Duration(static_cast<std::int64_t>(wait)));
}

}  // namespace tenzro::fetch
