#include "tenzro/exec/pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tenzro/exec/thread_priority.hpp"

namespace tenzro::exec {
namespace {

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// How long a thread that had work looks for more before it sleeps, and a caller for its helpers.
/// A layer is a few parallel steps, one right after the other, and waking a thread on a virtual
/// machine takes 30 to 60 us of the 100 to 200 that a step of one row takes. On a busy machine this
/// is all that is lost, once a job.
constexpr std::chrono::microseconds kLinger{50};

/// Gives the lock up and takes it again when `is_over` says so, or after kLinger. Takes it by
/// trying: who tells the news still holds it, and waiting for it properly would mean to sleep.
template <typename IsOver>
void linger(std::unique_lock<std::mutex>& lock, IsOver is_over) {
  lock.unlock();
  constexpr int kLooksAClock = 32;  // reading the clock costs as much as many looks
  const auto end = std::chrono::steady_clock::now() + kLinger;
  do {
    for (int look = 0; look < kLooksAClock; ++look) {
      if (is_over() && lock.try_lock()) return;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  lock.lock();
}

/// One parallel_for in progress. Lives on its caller's stack, who leaves only when nobody is
/// inside.
struct Slices {
  const std::size_t count;
  const std::function<void(std::size_t)>& body;
  /// The next index nobody has taken; grows past `count` by one for each thread that looks again.
  std::atomic<std::size_t> next{0};
  /// Workers inside, besides the caller. Changed under the pool's mutex.
  std::atomic<std::size_t> helpers{0};
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
  const std::size_t thread_count;
  mutable std::mutex mutex;  // guards everything below
  std::condition_variable work_came;
  std::deque<std::function<void()>> short_jobs;
  std::deque<std::function<void()>> compute_jobs;
  /// Oldest first: helping the oldest ends it, helping all of them ends none early.
  std::list<Slices*> open_slices;
  std::size_t running = 0;
  std::size_t idle = 0;
  bool stopping = false;
  /// Grows with everything that ends a wait, for those who look without the mutex.
  std::atomic<std::uint32_t> news{0};
  std::vector<std::thread> threads;

  State(std::size_t queue_bound, std::size_t count) : queue_max(queue_bound), thread_count(count) {}

  [[nodiscard]] std::size_t waiting() const { return short_jobs.size() + compute_jobs.size(); }

  [[nodiscard]] bool has_work() const { return !open_slices.empty() || waiting() != 0; }

  void work();
  void look_for_work(std::unique_lock<std::mutex>& lock);
  void help(std::unique_lock<std::mutex>& lock);
  void run_next_job(std::unique_lock<std::mutex>& lock);
};

void Pool::State::work() {
  lower_priority_of_this_thread();
  std::unique_lock lock(mutex);
  for (bool is_warm = false;; is_warm = true) {
    if (is_warm && !stopping && !has_work()) look_for_work(lock);
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

/// Waits a little without sleeping. Not idle meanwhile: nobody need wake this thread.
void Pool::State::look_for_work(std::unique_lock<std::mutex>& lock) {
  if (thread_count < 2) return;  // then there are no steps to share
  const std::uint32_t seen = news.load();
  linger(lock, [this, seen] { return news.load(std::memory_order_relaxed) != seen; });
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

Pool::Pool(const PoolOptions& options)
    : state_(
          std::make_unique<State>(options.queue_max, std::max<std::size_t>(options.threads, 1))) {
  const std::size_t count = state_->thread_count;
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
    ++state_->news;
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
    ++state_->news;
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
    ++state_->news;
    helpers_wanted = std::min(count - 1, state_->idle);
  }
  for (std::size_t i = 0; i < helpers_wanted; ++i) state_->work_came.notify_one();
  slices.run();
  std::unique_lock lock(state_->mutex);
  state_->open_slices.remove(&slices);
  if (slices.helpers != 0) linger(lock, [&slices] { return slices.helpers == 0; });
  slices.helpers_gone.wait(lock, [&slices] { return slices.helpers == 0; });
}

std::size_t Pool::concurrency() const {
  return state_->thread_count;
}

std::size_t Pool::depth() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting() + state_->running;
}

}  // namespace tenzro::exec
