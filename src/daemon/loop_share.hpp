#pragma once
/// \file
/// How much of the loop's time its own small jobs may take.
///
/// A job of some tens of microseconds is over sooner than a worker wakes up and the result comes
/// back. But the loop is one thread: its jobs may take half of its time, after a burst of kBurst;
/// beyond that they go to the workers, as large ones always do. Pure. Thread: the loop's.
#include <algorithm>
#include <chrono>

#include "tenzro/base/time.hpp"

namespace tenzro::daemon {

class LoopShare {
 public:
  static constexpr Duration kBurst = std::chrono::microseconds(500);

  [[nodiscard]] bool has_room(Instant now) const { return paid_at_ <= now + kBurst; }

  /// A job ran from `begin` to `end`.
  void spend(Instant begin, Instant end) {
    paid_at_ = std::max(paid_at_, begin) + 2 * (end - begin);
  }

 private:
  /// When what was spent is made up for.
  Instant paid_at_{};
};

}  // namespace tenzro::daemon
