#include "deadline.hpp"

namespace tenzro::http {

Deadline::Deadline(asio::io_context& context, std::weak_ptr<void> owner,
                   std::function<void()> on_passed)
    : timer_(context), owner_(std::move(owner)), on_passed_(std::move(on_passed)) {}

void Deadline::set(Duration from_now) {
  deadline_ = Clock::now() + from_now;
  if (deadline_ < waits_until_) wait_until(deadline_);
}

void Deadline::clear() {
  deadline_ = Clock::time_point::max();
}

void Deadline::wait_until(Clock::time_point time) {
  waits_until_ = time;
  timer_.expires_at(time);
  timer_.async_wait([this, owner = owner_](std::error_code error) {
    const std::shared_ptr<void> alive = owner.lock();
    if (!error && alive) on_timer();
  });
}

void Deadline::on_timer() {
  waits_until_ = Clock::time_point::max();
  if (deadline_ == Clock::time_point::max()) return;
  if (Clock::now() < deadline_) {
    wait_until(deadline_);
    return;
  }
  deadline_ = Clock::time_point::max();
  on_passed_();
}

}  // namespace tenzro::http
