#pragma once
/// \file
/// Lanes: a few threads for blocking work, in two lanes.
///
/// Work of the ordered lane runs one at a time, in order of posting; work of the free lane runs
/// whenever a thread is there. Between what may run, the older goes first. So changes never
/// overlap, and reads do not wait for them. `post` says no where the queue is full. The destructor
/// waits for what runs and drops what waits. Thread: post from any.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tenzro::store {

enum class Lane : std::uint8_t { ordered, free };

class Lanes {
 public:
  Lanes(std::size_t threads, std::size_t queue_max);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  [[nodiscard]] bool post(Lane lane, std::function<void()> work);

 private:
  struct Item {
    std::uint64_t number = 0;
    std::function<void()> work;
  };

  void run();
  /// The queue whose first item may run now and is the oldest, or none. Needs the mutex.
  std::deque<Item>* next_queue();

  const std::size_t queue_max_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable work_came_;
  std::deque<Item> ordered_;
  std::deque<Item> free_;
  std::uint64_t posted_ = 0;
  bool is_ordered_running_ = false;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tenzro::store
