#include "lanes.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/exec/thread_priority.hpp"

namespace tenzro::store {

Lanes::Lanes(std::size_t threads, std::size_t queue_max) : queue_max_(queue_max) {
  const std::size_t count = std::max<std::size_t>(threads, 1);
  threads_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
}

Lanes::~Lanes() {
  std::deque<Item> dropped_ordered;
  std::deque<Item> dropped_free;
  std::deque<Item> dropped_beside;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    dropped_ordered.swap(ordered_);
    dropped_free.swap(free_);
    dropped_beside.swap(beside_);
  }
  work_came_.notify_all();
  // Freed before the wait, so that running work which waits for what dropped work holds ends.
  dropped_ordered.clear();
  dropped_free.clear();
  dropped_beside.clear();
  for (std::thread& thread : threads_) thread.join();
}

bool Lanes::post(Lane lane, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_ || ordered_.size() + free_.size() + beside_.size() >= queue_max_) return false;
    queue_of(lane).push_back({++posted_, std::move(work)});
  }
  work_came_.notify_one();
  return true;
}

std::deque<Lanes::Item>& Lanes::queue_of(Lane lane) {
  if (lane == Lane::beside) return beside_;
  return lane == Lane::ordered ? ordered_ : free_;
}

std::deque<Lanes::Item>* Lanes::next_queue() {
  if (!beside_.empty()) return &beside_;
  const bool can_run_ordered = !ordered_.empty() && !is_ordered_running_;
  if (!can_run_ordered) return free_.empty() ? nullptr : &free_;
  if (free_.empty() || ordered_.front().number < free_.front().number) return &ordered_;
  return &free_;
}

void Lanes::run() {
  exec::lower_priority_of_this_thread();
  std::unique_lock lock(mutex_);
  for (;;) {
    work_came_.wait(lock, [this] { return is_stopping_ || next_queue() != nullptr; });
    if (is_stopping_) return;
    std::deque<Item>& queue = *next_queue();
    const bool is_ordered = &queue == &ordered_;
    std::function<void()> work = std::move(queue.front().work);
    queue.pop_front();
    is_ordered_running_ = is_ordered_running_ || is_ordered;
    lock.unlock();
    work();
    work = nullptr;  // what it holds is freed outside the lock
    lock.lock();
    if (is_ordered) is_ordered_running_ = false;
  }
}

}  // namespace tenzro::store
