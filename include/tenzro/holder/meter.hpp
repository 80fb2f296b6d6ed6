#pragma once
/// \file
/// Throughput of a host over the last minute, in one-second buckets.
///
/// `rate` = tokens counted in the last 60 s, divided by 60, rounded down. Read live: an idle minute
/// is 0. A token is one (token, expert) pair. Cost: O(1) to count, O(60) to read. Thread: owner's
/// only. Pure.
#include <array>
#include <cstdint>

#include "tenzro/base/time.hpp"

namespace tenzro::holder {

class Meter {
 public:
  void count(Instant now, std::uint64_t tokens);
  /// Tokens a second.
  [[nodiscard]] std::uint32_t rate(Instant now) const;

 private:
  static constexpr std::int64_t kBuckets = 60;

  struct Bucket {
    std::int64_t second = -1;
    std::uint64_t tokens = 0;
  };

  std::array<Bucket, kBuckets> buckets_{};
};

}  // namespace tenzro::holder
