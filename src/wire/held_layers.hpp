#pragma once
/// \file
/// Which experts a layer holds, as bytes: a bitmap or a list, whichever is shorter.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/wire/provider_record.hpp"

namespace tenzro::wire {

/// Appends the layer's bytes and returns its entry of `held_sizes`.
std::uint32_t append_held(const HeldLayer& layer, std::vector<std::uint8_t>& out);

/// The experts in ascending order; nothing where the bytes are not what append_held makes, or
/// hold more than `experts_max`.
[[nodiscard]] std::optional<std::vector<ExpertIndex>> read_held(std::span<const std::uint8_t> bytes,
                                                                bool is_list,
                                                                std::size_t experts_max);

}  // namespace tenzro::wire
