#pragma once
/// \file
/// Routed: the slots of a batch of tokens, which is what a router decides and everything after it
/// (plan, execution, combine) reads.
///
/// A slot is an expert and the weight of its output. Every token has the same number of slots: the
/// routed ones by weight, descending, ties to the lower id; then the shared one, if any, whose
/// index is the number of experts. A token never has one expert twice. Memory: 8 bytes a slot.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenzro/base/ids.hpp"

namespace tenzro::routing {

struct Slot {
  ExpertIndex expert = 0;
  float weight = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

struct Routed {
  std::uint32_t tokens = 0;
  /// top_k, plus one where there is a shared slot.
  std::uint32_t slots_per_token = 0;
  /// What was asked for, clamped to the number of experts.
  std::uint32_t top_k = 0;
  /// [tokens, slots_per_token]
  std::vector<Slot> slots;

  [[nodiscard]] std::span<const Slot> token(std::uint32_t index) const {
    return std::span(slots).subspan(std::size_t{index} * slots_per_token, slots_per_token);
  }
};

}  // namespace tenzro::routing
