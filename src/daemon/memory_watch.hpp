#pragma once
/// \file
/// Looks at the system's memory pressure from time to time and says when the budget should change.
/// Thread: the loop's.
#include <cstdint>
#include <functional>

#include <asio/steady_timer.hpp>

#include "memory_facts.hpp"

namespace tenzro::daemon {

class MemoryWatch {
 public:
  /// `on_budget` outlives the watch.
  MemoryWatch(asio::io_context& context, std::uint64_t budget_bytes,
              std::function<void(std::uint64_t)> on_budget);

 private:
  void arm();
  void look();

  asio::steady_timer timer_;
  PressureGovernor governor_;
  std::function<void(std::uint64_t)> on_budget_;
};

}  // namespace tenzro::daemon
