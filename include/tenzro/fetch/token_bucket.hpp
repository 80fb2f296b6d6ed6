#pragma once
/// \file
/// TokenBucket: how many bytes may go now, under a rate.
///
/// Fills at `bytes_per_s` up to one second's worth, or `burst_bytes` where that is more (so that
/// the largest single request can ever go). Rate 0: no limit. Integers only: what is left of a
/// division stays in the bucket. Thread: the owner's only. Pure.
#include <algorithm>
#include <cstdint>

#include "tenzro/base/time.hpp"

namespace tenzro::fetch {

class TokenBucket {
 public:
  TokenBucket(std::uint64_t bytes_per_s, std::uint64_t burst_bytes)
      : bytes_per_s_(std::min(bytes_per_s, kRateMax)),
        bytes_max_(std::max(bytes_per_s_, burst_bytes)),
        bytes_(bytes_max_) {}

  /// False, and nothing taken, where there are too few.
  [[nodiscard]] bool take(Instant now, std::uint64_t bytes);
  /// When take(bytes) will succeed, if nobody takes before. Requires bytes <= burst_bytes.
  [[nodiscard]] Instant when(Instant now, std::uint64_t bytes) const;

 private:
  /// A terabyte a second: so that a product with microseconds fits 64 bits.
  static constexpr std::uint64_t kRateMax = 1'000'000'000'000;

  void fill(Instant now);

  std::uint64_t bytes_per_s_;
  std::uint64_t bytes_max_;
  std::uint64_t bytes_;
  Instant filled_{};
};

}  // namespace tenzro::fetch
