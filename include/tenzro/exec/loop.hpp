#pragma once
/// \file
/// The one thread that owns the node's state: an event loop over Asio.
///
/// `post` may be called from any thread; everything else from the loop's thread only. The loop runs
/// until `stop`. Asio stays behind `context()`, which only shells (exec, http, net, daemon) use.
#include <functional>
#include <memory>
#include <optional>

#include "tenzro/base/time.hpp"

namespace asio {
class io_context;
}  // namespace asio

namespace tenzro::exec {

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  [[nodiscard]] asio::io_context& context();
  /// Runs `task` on the loop's thread, later. Any thread.
  void post(std::function<void()> task);
  /// Serves events on the calling thread until stop().
  void run();
  void stop();
  /// Monotonic time since the loop was made.
  [[nodiscard]] Instant now() const;

  /// The loop's one deadline timer: `on_deadline` runs once at or after `deadline`; re-arming
  /// replaces it.
  void arm(std::optional<Instant> deadline, std::function<void()> on_deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenzro::exec
