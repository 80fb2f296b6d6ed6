#include "tenzro/exec/pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace tenzro::exec {
namespace {

/// Enough that the loop's thread wins every contest for a core, little enough that the node does
/// not starve beside other programs.
constexpr int kWorkerNice = 5;

/// Linux keeps niceness per thread, under the thread's id.
void lower_priority_of_this_thread() {
  const auto thread_id = static_cast<id_t>(gettid());
  // A refusal (some sandboxes) costs timeliness under load, never a result.
  // Above what it has: the whole process may have been started with a niceness of its own.
  const int own = getpriority(PRIO_PROCESS, thread_id);
  static_cast<void>(setpriority(PRIO_PROCESS, thread_id, own + kWorkerNice));
}

/// One parallel_for in progress. Lives on its caller's stack, who leaves only when nobody is
/// inside.
struct Slices {
  const std::size_t count;
  const std::function<void(std::size_t)>& body;
  /// The next index nobody has taken; grows past `count` by one for each thread that looks again.
  std::atomic<std::size_t> next{0};
  /// Workers inside, besides the caller. Under the pool's mutex.
  std::size_t helpers = 0;
  std::condition_variable helpers_gone;

  Slices(std::size_t slice_count, const std::function<void(std::size_t)>& slice_body)
      : count(slice_count), body(slice_body) {}

  void run() {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
  }
};

}  // namespace

struct Pool::State {
  const std::size_t queue_max;
  mutable std::mutex mutex;  // guards everything below
  std::condition_variable work_came;
  std::deque<std::function<void()>> short_jobs;
  std::deque<std::function<void()>> compute_jobs;
  /// Oldest first: helping the oldest ends it, helping all of them ends none early.
  std::list<Slices*> open_slices;
  std::size_t running = 0;
  std::size_t idle = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

  explicit State(std::size_t queue_bound) : queue_max(queue_bound) {}

  [[nodiscard]] std::size_t waiting() const { return short_jobs.size() + compute_jobs.size(); }

  [[nodiscard]] bool has_work() const { return !open_slices.empty() || waiting() != 0; }

  void work();
  void help(std::unique_lock<std::mutex>& lock);
  void run_next_job(std::unique_lock<std::mutex>& lock);
};

void Pool::State::work() {
  lower_priority_of_this_thread();
  std::unique_lock lock(mutex);
  for (;;) {
    ++idle;
    work_came.wait(lock, [this] { return stopping || has_work(); });
    --idle;
    if (stopping) return;
    if (!open_slices.empty()) {
      help(lock);
    } else {
      run_next_job(lock);
    }
  }
}

void Pool::State::help(std::unique_lock<std::mutex>& lock) {
  Slices& slices = *open_slices.front();
  ++slices.helpers;
  lock.unlock();
  slices.run();
  lock.lock();
  // Every index is taken now: nobody else need look.
  open_slices.remove(&slices);
  --slices.helpers;
  // Under the lock: the caller cannot wake and destroy the condition before this returns.
  if (slices.helpers == 0) slices.helpers_gone.notify_one();
}

void Pool::State::run_next_job(std::unique_lock<std::mutex>& lock) {
  auto& queue = short_jobs.empty() ? compute_jobs : short_jobs;
  std::function<void()> job = std::move(queue.front());
  queue.pop_front();
  ++running;
  lock.unlock();
  job();
  job = nullptr;  // what the job holds is freed before it counts as done, and outside the lock
  lock.lock();
  --running;
}

Pool::Pool(const PoolOptions& options) : state_(std::make_unique<State>(options.queue_max)) {
  const std::size_t count = std::max<std::size_t>(options.threads, 1);
  state_->threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    state_->threads.emplace_back([state = state_.get()] { state->work(); });
  }
}

Pool::~Pool() {
  std::deque<std::function<void()>> dropped_short;
  std::deque<std::function<void()>> dropped_compute;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    dropped_short.swap(state_->short_jobs);
    dropped_compute.swap(state_->compute_jobs);
  }
  state_->work_came.notify_all();
  // Freed before the wait, so that a running job which waits for a dropped one's resources ends.
  dropped_short.clear();
  dropped_compute.clear();
  for (std::thread& thread : state_->threads) thread.join();
}

bool Pool::submit(Priority priority, std::function<void()> job) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping || state_->waiting() >= state_->queue_max) return false;
    auto& queue = priority == Priority::short_job ? state_->short_jobs : state_->compute_jobs;
    queue.push_back(std::move(job));
  }
  state_->work_came.notify_one();
  return true;
}

void Pool::parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) {
  Slices slices(count, body);
  if (count < 2) {  // nothing to share
    slices.run();
    return;
  }
  std::size_t helpers_wanted = 0;
  {
    const std::lock_guard lock(state_->mutex);
    state_->open_slices.push_back(&slices);
    helpers_wanted = std::min(count - 1, state_->idle);
  }
  for (std::size_t i = 0; i < helpers_wanted; ++i) state_->work_came.notify_one();
  slices.run();
  std::unique_lock lock(state_->mutex);
  state_->open_slices.remove(&slices);
  slices.helpers_gone.wait(lock, [&slices] { return slices.helpers == 0; });
}

std::size_t Pool::concurrency() const {
  return state_->threads.size();
}

std::size_t Pool::depth() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting() + state_->running;
}

}  // namespace tenzro::exec
