#include "tenzro/holder/meter.hpp"

#include <algorithm>
#include <limits>

#include "tenzro/base/assert.hpp"

namespace tenzro::holder {
namespace {

std::int64_t second_of(Instant now) {
  return std::chrono::floor<std::chrono::seconds>(now.since_start).count();
}

}  // namespace

void Meter::count(Instant now, std::uint64_t tokens) {
  const std::int64_t second = second_of(now);
  Bucket& bucket = buckets_[static_cast<std::size_t>(second % kBuckets)];
  if (bucket.second != second) bucket = {.second = second, .tokens = 0};
  bucket.tokens += tokens;
}

std::uint32_t Meter::rate(Instant now) const {
  const std::int64_t second = second_of(now);
  std::uint64_t tokens = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.second >= 0 && second - bucket.second < kBuckets) tokens += bucket.tokens;
  }
  const std::uint64_t per_second = tokens / static_cast<std::uint64_t>(kBuckets);
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(per_second, std::numeric_limits<std::uint32_t>::max()));
}

ServiceMeter::Bucket& ServiceMeter::bucket(Instant now) {
  const std::int64_t second = second_of(now);
  Bucket& bucket = buckets_[static_cast<std::size_t>(second % kBuckets)];
  if (bucket.second != second) bucket = {.second = second};
  return bucket;
}

void ServiceMeter::on_begin(Instant now) {
  if (jobs_++ == 0) busy_since_ = now;
}

void ServiceMeter::on_end(Instant now, std::uint64_t rows) {
  TENZRO_ASSERT(jobs_ > 0);
  --jobs_;
  Bucket& now_bucket = bucket(now);
  now_bucket.rows += rows;
  now_bucket.busy += now - busy_since_;
  busy_since_ = now;
}

std::uint64_t ServiceMeter::row_time_ns(Instant now) const {
  const std::int64_t second = second_of(now);
  std::uint64_t rows = 0;
  Duration busy{0};
  for (const Bucket& bucket : buckets_) {
    if (bucket.second < 0 || second - bucket.second >= kBuckets) continue;
    rows += bucket.rows;
    busy += bucket.busy;
  }
  if (rows == 0) return 0;
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(busy).count();
  return static_cast<std::uint64_t>(spent) / rows;
}

}  // namespace tenzro::holder
