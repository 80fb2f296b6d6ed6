#pragma once
/// \file
/// Lanes: a few threads for blocking work, in three lanes.
///
/// Work of the ordered lane runs one at a time, in order of posting; work of the free lane runs
/// whenever a thread is there. Between what may run, the older goes first. So changes never
/// overlap, and reads do not wait for them. The lane beside is for what helps work that runs
/// already, such as packing a blob while it is read, and goes before both: behind the reads that
/// wait it would come when its own read is long over, and the bytes would be kept that long.
///  - Work beside may wait for work that runs, and for nothing that is still in a queue. So all
///  threads may be taken by it and none waits for ever: what it waits for has a thread.
///  - Each piece comes of work of the other lanes, a few of it at most. So it keeps those waiting,
///  but never for good.
/// `post` says no where the queue is full. The destructor waits for what runs and drops what waits.
/// The threads run below the loop's priority. Thread: post from any.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tenzro::store {

enum class Lane : std::uint8_t { ordered, free, beside };

class Lanes {
 public:
  /// At most `queue_max` pieces wait, all lanes together.
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
  /// Needs the mutex, as the next.
  std::deque<Item>& queue_of(Lane lane);
  /// The queue whose first item goes next, or none that may run now.
  std::deque<Item>* next_queue();

  const std::size_t queue_max_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable work_came_;
  std::deque<Item> ordered_;
  std::deque<Item> free_;
  std::deque<Item> beside_;
  std::uint64_t posted_ = 0;
  bool is_ordered_running_ = false;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tenzro::store
