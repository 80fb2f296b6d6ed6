#include "sim/bounds.hpp"

namespace tenzro::testing {
namespace {

std::string more_than(const char* what, std::uint64_t value, std::uint64_t limit) {
  return std::string(what) + ": " + std::to_string(value) + " of " + std::to_string(limit);
}

}  // namespace

std::optional<std::string> exceeded_limit(const SimNode& node) {
  if (!node.is_up()) return std::nullopt;
  const node::Node& core = node.node();
  const std::size_t requests = core.requests_in_progress() + core.peer_requests_in_progress();
  if (requests > core.requests_max()) {
    return more_than("requests in progress", requests, core.requests_max());
  }
  const std::uint64_t bytes = core.holder().bytes_in_use();
  const std::uint64_t budget = core.holder().memory_budget_bytes();
  if (bytes > budget) return more_than("bytes of experts and gates in memory", bytes, budget);
  const std::size_t fetches_max = core.repair().fetches_max();
  if (core.repair().in_flight() > fetches_max) {
    return more_than("fetches to repair", core.repair().in_flight(), fetches_max);
  }
  if (node.disk_bytes() != 0 && node.stored_bytes() > node.disk_bytes()) {
    return more_than("bytes on disk", node.stored_bytes(), node.disk_bytes());
  }
  return std::nullopt;
}

}  // namespace tenzro::testing
