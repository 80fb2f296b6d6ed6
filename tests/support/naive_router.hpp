#pragma once
/// \file
/// The naive twin of routing::route: one token, full sorts, no shared buffers.
///
/// Written from the steps in routing/route.hpp alone; random comparison holds the two to equal ids
/// and equal bits of every weight.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenzro/routing/routed.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::testing {

/// Slots of one token, shared one included. Requires finite logits and 1 <= top_k.
[[nodiscard]] std::vector<routing::Slot> naive_route(const wire::GateBlob& gate,
                                                     std::span<const float> logits,
                                                     std::uint32_t top_k,
                                                     std::optional<std::int64_t> token_id,
                                                     std::optional<float> shared_gate_logit);

}  // namespace tenzro::testing
