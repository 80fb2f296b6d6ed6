#pragma once
/// \file
/// The places of a block's group scales on its 6-bit grid, where groups do not count alike.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenzro::tensor {

inline constexpr std::size_t kGridGroups = 8;

struct WeightedGrid {
  float step = 0;  ///< value is approximated by step * place
  std::array<std::uint8_t, kGridGroups> places{};
};

/// The reference's search: a few steps around the largest value, then single places moved while the
/// weighted error falls. `values` and `weights` are not negative.
[[nodiscard]] WeightedGrid fit_weighted_grid(std::span<const float, kGridGroups> values,
                                             std::span<const float, kGridGroups> weights);

}  // namespace tenzro::tensor
