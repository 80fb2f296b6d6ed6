#pragma once
/// \file
/// Throughput and service time of a host over the last minute, in one-second buckets.
///
/// `rate` = tokens counted in the last 60 s, divided by 60, rounded down. Read live: an idle minute
/// is 0. A token is one (token, expert) pair. Cost: O(1) to count, O(60) to read. Thread: owner's
/// only. Pure.
///
/// `row_time_ns`: time during which at least one expert job was under way, divided by the rows that
/// ended. So it is what a row costs this host as it works now, several jobs at once included, and
/// not what it was asked for; 0 after a minute without rows.
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

class ServiceMeter {
 public:
  void on_begin(Instant now);
  /// A job that on_begin counted is over; `rows` (expert, token) pairs ended with it, 0 where it
  /// failed.
  void on_end(Instant now, std::uint64_t rows);

  [[nodiscard]] std::uint64_t row_time_ns(Instant now) const;

  [[nodiscard]] std::uint64_t jobs() const { return jobs_; }

 private:
  static constexpr std::int64_t kBuckets = 60;

  struct Bucket {
    std::int64_t second = -1;
    std::uint64_t rows = 0;
    Duration busy{0};
  };

  Bucket& bucket(Instant now);

  std::array<Bucket, kBuckets> buckets_{};
  std::uint64_t jobs_ = 0;
  Instant busy_since_;
};

}  // namespace tenzro::holder
