#pragma once
/// \file
/// Black holes: a path that takes small packets and silently loses large ones.
///
/// Path-MTU probing (ngtcp2's) finds the largest packet of a path once; when the path changes
/// later, large packets vanish. Rule: stream data unacknowledged for `patience` while large packets
/// were sent -> packets are limited to 1200 bytes, which every path takes. If data is acknowledged
/// then, it was a black hole, and the limit is lifted after a while to try again; twice as long
/// each time it fails. Pure. Time: nanoseconds of the caller's clock.
#include <cstddef>
#include <cstdint>

namespace tenzro::net {

class MtuGuard {
 public:
  using Nanoseconds = std::uint64_t;

  static constexpr std::size_t kSafeBytes = 1200;
  static constexpr Nanoseconds kFirstRetry = 30'000'000'000;
  static constexpr Nanoseconds kRetryMax = 600'000'000'000;

  /// Largest packet to write, where the path would take `path_max`.
  [[nodiscard]] std::size_t limit(std::size_t path_max) const;
  /// A packet of `bytes` went out while stream data was unacknowledged.
  void on_sent(Nanoseconds now, std::size_t bytes);
  /// Stream data was acknowledged; `all`: nothing of it is outstanding. True where that proves a
  /// black hole.
  bool on_progress(Nanoseconds now, bool all);
  /// To be called now and then.
  void on_time(Nanoseconds now, Nanoseconds patience);

 private:
  enum class State : std::uint8_t { open, suspected, limited };

  State state_ = State::open;
  bool is_waiting_ = false;
  bool was_large_ = false;  ///< since waiting began
  Nanoseconds waiting_since_ = 0;
  Nanoseconds retry_at_ = 0;
  Nanoseconds retry_after_ = kFirstRetry;
};

}  // namespace tenzro::net
