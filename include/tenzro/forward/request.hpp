#pragma once
/// \file
/// What a client wants of one layer forward, checked against the layer's gate.
#include <cstdint>
#include <optional>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/compute/backend.hpp"

namespace tenzro::forward {

enum class Carrier : std::uint8_t { automatic, dense, q8 };

struct Request {
  std::uint64_t number = 0;  ///< what the planner's draws are made of
  LayerKey layer;
  std::uint32_t tokens = 0;
  std::uint32_t d_model = 0;
  BufferRef hidden;
  BufferRef router_hidden;  ///< empty: the router reads `hidden`
  std::vector<std::int64_t> token_ids;
  std::uint32_t top_k = 0;
  std::optional<bool> allow_cold;
  bool allow_partial = false;
  Carrier carrier = Carrier::automatic;
  compute::Profile profile = compute::Profile::exact;
  double min_kept_mass = 0.5;
  Instant deadline;
};

}  // namespace tenzro::forward
