#pragma once
/// \file
/// Deadline: one moving point in time over one timer.
///
/// Moving it later costs a clock read: the timer is left as it is, and looks again when it fires.
/// Thread: the loop's.
#include <chrono>
#include <functional>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "tenzro/base/time.hpp"

namespace tenzro::http {

class Deadline {
 public:
  /// `on_passed` runs only while `owner`, which holds this Deadline, lives.
  Deadline(asio::io_context& context, std::weak_ptr<void> owner, std::function<void()> on_passed);

  void set(Duration from_now);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void wait_until(Clock::time_point time);
  void on_timer();

  asio::steady_timer timer_;
  std::weak_ptr<void> owner_;
  std::function<void()> on_passed_;
  Clock::time_point deadline_ = Clock::time_point::max();  // max: none
  Clock::time_point waits_until_ = Clock::time_point::max();
};

}  // namespace tenzro::http
