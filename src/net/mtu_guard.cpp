#include "mtu_guard.hpp"

#include <algorithm>

namespace tenzro::net {

std::size_t MtuGuard::limit(std::size_t path_max) const {
  return state_ == State::open ? path_max : std::min(path_max, kSafeBytes);
}

void MtuGuard::on_sent(Nanoseconds now, std::size_t bytes) {
  if (!is_waiting_) {
    is_waiting_ = true;
    was_large_ = false;
    waiting_since_ = now;
  }
  was_large_ = was_large_ || bytes > kSafeBytes;
}

bool MtuGuard::on_progress(Nanoseconds now, bool all) {
  is_waiting_ = !all;
  was_large_ = false;
  waiting_since_ = now;
  if (state_ != State::suspected) return false;
  state_ = State::limited;
  retry_at_ = now + retry_after_;
  retry_after_ = std::min(2 * retry_after_, kRetryMax);
  return true;
}

void MtuGuard::on_time(Nanoseconds now, Nanoseconds patience) {
  if (state_ == State::limited && now >= retry_at_) state_ = State::open;
  if (state_ != State::open || !is_waiting_ || !was_large_) return;
  if (now - waiting_since_ >= patience) state_ = State::suspected;
}

}  // namespace tenzro::net
