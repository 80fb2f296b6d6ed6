#include "memory_watch.hpp"

#include <chrono>
#include <utility>

#include <asio/io_context.hpp>
#include <spdlog/spdlog.h>

#include "memory_budget.hpp"

namespace tenzro::daemon {
namespace {

/// The kernel's own shortest average is over ten seconds.
constexpr std::chrono::seconds kLookEvery{5};

}  // namespace

MemoryWatch::MemoryWatch(asio::io_context& context, std::uint64_t budget_bytes,
                         std::function<void(std::uint64_t)> on_budget)
    : timer_(context), governor_(budget_bytes), on_budget_(std::move(on_budget)) {
  if (current_memory_pressure("")) arm();  // else the kernel tells nothing
}

void MemoryWatch::arm() {
  timer_.expires_after(kLookEvery);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) look();
  });
}

void MemoryWatch::look() {
  arm();
  const auto pressure = current_memory_pressure("");
  if (!pressure) return;
  const auto budget = governor_.on_sample(*pressure);
  if (!budget) return;
  spdlog::warn(
      "memory budget bytes={} reason=\"tasks waited for memory {}.{:02} % of the last ten "
      "seconds\"",
      *budget, *pressure / 100, *pressure % 100);
  on_budget_(*budget);
}

}  // namespace tenzro::daemon
