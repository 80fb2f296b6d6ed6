#include "tenzro/exec/loop.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace tenzro::exec {
namespace {
using Clock = std::chrono::steady_clock;
/// Deadlines beyond this are as good as never; a larger one would overflow the clock's nanoseconds.
constexpr Duration kDeadlineMax = std::chrono::hours{24 * 365 * 50};
/// One thread runs the context, which lets Asio leave out its own contention handling.
constexpr int kRunningThreads = 1;
}  // namespace

struct Loop::State {
  const Clock::time_point start = Clock::now();
  asio::io_context context{kRunningThreads};
  asio::executor_work_guard<asio::io_context::executor_type> keep_running{context.get_executor()};
  asio::steady_timer timer{context};
  /// What the armed deadline runs; empty while none is armed.
  std::function<void()> on_deadline;
  /// Counts arm() calls: a wait that had already expired when it was replaced cannot be cancelled
  /// any more, and knows by this number that it is stale.
  std::uint64_t armed = 0;

  void fire(std::uint64_t armed_then) {
    if (armed_then != armed || !on_deadline) return;
    // Taken out first: the task may arm the next deadline, and no deadline runs twice.
    const std::function<void()> task = std::exchange(on_deadline, nullptr);
    task();
  }
};

Loop::Loop() : state_(std::make_unique<State>()) {}

Loop::~Loop() = default;

asio::io_context& Loop::context() {
  return state_->context;
}

void Loop::post(std::function<void()> task) {
  asio::post(state_->context, std::move(task));
}

void Loop::run() {
  state_->context.run();
}

void Loop::stop() {
  state_->context.stop();
}

Instant Loop::now() const {
  return Instant{std::chrono::duration_cast<Duration>(Clock::now() - state_->start)};
}

void Loop::arm(std::optional<Instant> deadline, std::function<void()> on_deadline) {
  State& state = *state_;
  ++state.armed;
  state.on_deadline = nullptr;
  if (!deadline) {
    state.timer.cancel();
    return;
  }
  state.on_deadline = std::move(on_deadline);
  state.timer.expires_at(state.start + std::min(deadline->since_start, kDeadlineMax));
  state.timer.async_wait([&state, armed_then = state.armed](const asio::error_code& error) {
    if (!error) state.fire(armed_then);
  });
}

}  // namespace tenzro::exec
