#include "q4_k.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "f16_field.hpp"
#include "finite.hpp"
#include "lanes.hpp"
#include "rounding.hpp"
#include "weighted_grid.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::size_t kGroups = 8;
constexpr std::size_t kGroupElements = 32;
constexpr std::size_t kBatches = kGroups / kLanes;
constexpr float kValueMax = 15.0F;
constexpr float kScaleMax = 63.0F;
constexpr std::size_t kPacked = 4;
constexpr std::size_t kValues = 16;

/// The search tries inverse scales (15 + start + step * i) / range for i = 0..steps.
struct Search {
  float start;
  float step;
  int steps;
};

constexpr Search kSearch{-1.0F, 0.1F, 20};
constexpr Search kWeightedSearch{-0.9F, 0.05F, 36};

/// Element i of four groups.
using Group = std::array<Lanes, kGroupElements>;

/// x is approximated by scale * value + minimum.
struct Fit {
  Lanes scale{};
  Lanes minimum{};
  Group values{};
};

struct Weights {
  Group each{};
  Lanes sum{};
  Lanes sum_x{};
};

Group load(const float* first_group) {
  Group x{};
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      x[i][lane] = first_group[lane * kGroupElements + i];
    }
  }
  return x;
}

Lanes square_root(Lanes x) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) x[lane] = std::sqrt(x[lane]);
  return x;
}

void add_up(const Group& x, Weights& weights) {
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    weights.sum += weights.each[i];
    weights.sum_x += weights.each[i] * x[i];
  }
}

/// Larger elements count more: each weighs the root mean square plus its magnitude.
Weights weigh(const Group& x) {
  Lanes squares{};
  for (const Lanes element : x) squares += element * element;
  const Lanes mean = square_root(squares / all_lanes(static_cast<float>(kGroupElements)));
  Weights weights;
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    weights.each[i] = mean + select(x[i] < all_lanes(0.0F), -x[i], x[i]);
  }
  add_up(x, weights);
  return weights;
}

/// Importance times a magnitude; `variance` is twice the block's mean square.
Weights weigh_by(const Group& x, const Group& importance, float variance) {
  Weights weights;
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    weights.each[i] = importance[i] * square_root(all_lanes(variance) + x[i] * x[i]);
  }
  add_up(x, weights);
  return weights;
}

Lanes weighted_error(const Group& x, const Weights& weights, const Fit& fit) {
  Lanes error{};
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    const Lanes difference = fit.scale * fit.values[i] + fit.minimum - x[i];
    error += weights.each[i] * (difference * difference);
  }
  return error;
}

/// Quantises with `inverse_scale` above `minimum`, then finds the scale and minimum that fit those
/// values best (weighted least squares, minimum <= 0). Returns where they are determined at all.
LaneMask try_scale(const Group& x, const Weights& weights, Lanes inverse_scale, Lanes minimum,
                   Fit& trial) {
  Lanes sum_l{};
  Lanes sum_l2{};
  Lanes sum_xl{};
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    const Lanes value = rounded_within(inverse_scale * (x[i] - minimum), 0.0F, kValueMax);
    trial.values[i] = value;
    const Lanes weighted = weights.each[i] * value;
    sum_l += weighted;
    sum_l2 += weighted * value;
    sum_xl += weighted * x[i];
  }
  const Lanes determinant = weights.sum * sum_l2 - sum_l * sum_l;
  const Lanes scale = (weights.sum * sum_xl - weights.sum_x * sum_l) / determinant;
  const Lanes best_minimum = (sum_l2 * weights.sum_x - sum_l * sum_xl) / determinant;
  const LaneMask above = best_minimum > all_lanes(0.0F);
  trial.scale = select(above, sum_xl / sum_l2, scale);
  trial.minimum = select(above, all_lanes(0.0F), best_minimum);
  return determinant > all_lanes(0.0F);
}

Fit fit_groups(const Group& x, const Weights& weights, const Search& search) {
  Lanes low = x[0];
  Lanes high = x[0];
  for (const Lanes element : x) {
    low = select(element < low, element, low);
    high = select(element > high, element, high);
  }
  Fit best;
  best.minimum = select(low > all_lanes(0.0F), all_lanes(0.0F), low);
  const LaneMask is_flat = high == best.minimum;
  const Lanes flat_minimum = best.minimum;
  const Lanes inverse = all_lanes(kValueMax) / (high - best.minimum);
  best.scale = all_lanes(1.0F) / inverse;
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    best.values[i] = rounded_within(inverse * (x[i] - best.minimum), 0.0F, kValueMax);
  }
  Lanes best_error = weighted_error(x, weights, best);
  Fit trial;
  for (int step = 0; step <= search.steps; ++step) {
    // A better minimum found on the way widens or narrows the range of the steps after it.
    const float levels = search.start + search.step * static_cast<float>(step) + kValueMax;
    const LaneMask is_solved =
        try_scale(x, weights, all_lanes(levels) / (high - best.minimum), best.minimum, trial);
    const Lanes error = weighted_error(x, weights, trial);
    const LaneMask is_better = is_solved & (error < best_error);
    best_error = select(is_better, error, best_error);
    best.scale = select(is_better, trial.scale, best.scale);
    best.minimum = select(is_better, trial.minimum, best.minimum);
    for (std::size_t i = 0; i < kGroupElements; ++i) {
      best.values[i] = select(is_better, trial.values[i], best.values[i]);
    }
  }
  // A flat group has no scale to search: all its values are its minimum.
  best.scale = select(is_flat, all_lanes(0.0F), best.scale);
  best.minimum = select(is_flat, flat_minimum, best.minimum);
  for (Lanes& value : best.values) value = select(is_flat, all_lanes(0.0F), value);
  return best;
}

/// Scales and mins of all groups on the shared 6-bit grid of the block.
struct Grid {
  std::array<std::uint8_t, kGroups> scales{};
  std::array<std::uint8_t, kGroups> mins{};
};

std::uint8_t on_grid(float value) {
  // The reference narrows to a byte before it caps.
  return std::min(static_cast<std::uint8_t>(nearest_int(value)),
                  static_cast<std::uint8_t>(kScaleMax));
}

void pack(const Grid& grid, std::byte* packed) {
  for (std::size_t j = 0; j < kGroups / 2; ++j) {
    const std::uint32_t scale = grid.scales[j];
    const std::uint32_t minimum = grid.mins[j];
    const std::uint32_t scale4 = grid.scales[j + 4];
    const std::uint32_t minimum4 = grid.mins[j + 4];
    packed[j] = static_cast<std::byte>(scale | ((scale4 >> 4U) << 6U));
    packed[j + 4] = static_cast<std::byte>(minimum | ((minimum4 >> 4U) << 6U));
    packed[j + 8] = static_cast<std::byte>((scale4 & 15U) | ((minimum4 & 15U) << 4U));
  }
}

Grid unpack(const std::byte* packed) {
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(packed[i]); };
  Grid grid;
  for (std::size_t j = 0; j < kGroups / 2; ++j) {
    grid.scales[j] = static_cast<std::uint8_t>(byte(j) & 63U);
    grid.mins[j] = static_cast<std::uint8_t>(byte(j + 4) & 63U);
    grid.scales[j + 4] = static_cast<std::uint8_t>((byte(j + 8) & 15U) | ((byte(j) >> 6U) << 4U));
    grid.mins[j + 4] = static_cast<std::uint8_t>((byte(j + 8) >> 4U) | ((byte(j + 4) >> 6U) << 4U));
  }
  return grid;
}

/// Values are chosen again for the scales and mins that are stored; a group whose stored scale is
/// zero keeps those of its fit.
void requantize(const Group& x, Lanes scale, Lanes minimum, Group& values) {
  const LaneMask is_kept = scale == all_lanes(0.0F);
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    const Lanes value = rounded_within((x[i] + minimum) / scale, 0.0F, kValueMax);
    values[i] = select(is_kept, values[i], value);
  }
}

/// Writes the two stripes of four groups: even groups in low nibbles, odd ones in high nibbles.
void pack_values(const Group& values, std::byte* stripes) {
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    for (std::size_t pair = 0; pair < kLanes / 2; ++pair) {
      const auto low = static_cast<unsigned>(values[i][2 * pair]);
      const auto high = static_cast<unsigned>(values[i][2 * pair + 1]);
      stripes[pair * kGroupElements + i] = static_cast<std::byte>(low | (high << 4U));
    }
  }
}

/// Chooses the block's two f16 scales and the groups' places on the grid between them.
Grid make_grid(const std::array<Fit, kBatches>& fits, std::byte* block) {
  float scale_max = 0.0F;
  float drop_max = 0.0F;  // mins are stored as positive drops below zero
  for (std::size_t j = 0; j < kGroups; ++j) {
    scale_max = std::max(scale_max, fits[j / kLanes].scale[j % kLanes]);
    drop_max = std::max(drop_max, -fits[j / kLanes].minimum[j % kLanes]);
  }
  const float inverse_scale = scale_max > 0.0F ? kScaleMax / scale_max : 0.0F;
  const float inverse_drop = drop_max > 0.0F ? kScaleMax / drop_max : 0.0F;
  Grid grid;
  for (std::size_t j = 0; j < kGroups; ++j) {
    grid.scales[j] = on_grid(inverse_scale * fits[j / kLanes].scale[j % kLanes]);
    grid.mins[j] = on_grid(inverse_drop * -fits[j / kLanes].minimum[j % kLanes]);
  }
  store_f16_bits(f32_to_f16(scale_max / kScaleMax), block + kQ4KScaleField);
  store_f16_bits(f32_to_f16(drop_max / kScaleMax), block + kQ4KMinimumField);
  return grid;
}

/// The same for groups that count by `group_weights`.
Grid make_weighted_grid(const std::array<Fit, kBatches>& fits,
                        const std::array<Lanes, kBatches>& group_weights, std::byte* block) {
  std::array<float, kGroups> scales{};
  std::array<float, kGroups> drops{};
  std::array<float, kGroups> weights{};
  for (std::size_t j = 0; j < kGroups; ++j) {
    scales[j] = fits[j / kLanes].scale[j % kLanes];
    drops[j] = -fits[j / kLanes].minimum[j % kLanes];
    weights[j] = group_weights[j / kLanes][j % kLanes];
  }
  const WeightedGrid scale = fit_weighted_grid(scales, weights);
  const WeightedGrid drop = fit_weighted_grid(drops, weights);
  store_f16_bits(f32_to_f16(scale.step), block + kQ4KScaleField);
  store_f16_bits(f32_to_f16(drop.step), block + kQ4KMinimumField);
  return {scale.places, drop.places};
}

void fill_non_finite(std::span<std::byte, kQ4KBytes> block) {
  std::fill(block.begin(), block.end(), std::byte{0});
  store_f16_bits(kF16Nan, &block[kQ4KScaleField]);
  store_f16_bits(kF16Nan, &block[kQ4KMinimumField]);
}

/// Writes grid and values; the block's f16 scales are already there.
void finish_block(const std::array<Group, kBatches>& groups, std::array<Fit, kBatches>& fits,
                  const Grid& grid, std::byte* block) {
  pack(grid, block + kPacked);
  const float scale = load_f16(block + kQ4KScaleField);
  const float minimum = load_f16(block + kQ4KMinimumField);
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    Lanes scales{};
    Lanes minimums{};
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      scales[lane] = scale * static_cast<float>(grid.scales[batch * kLanes + lane]);
      minimums[lane] = minimum * static_cast<float>(grid.mins[batch * kLanes + lane]);
    }
    requantize(groups[batch], scales, minimums, fits[batch].values);
    pack_values(fits[batch].values, block + kValues + batch * kLanes / 2 * kGroupElements);
  }
}

}  // namespace

void encode_q4_k(std::span<const float, kQ4KElements> x, std::span<std::byte, kQ4KBytes> block) {
  if (!all_finite(x)) return fill_non_finite(block);
  std::array<Group, kBatches> groups{};
  std::array<Fit, kBatches> fits;
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    groups[batch] = load(x.data() + batch * kLanes * kGroupElements);
    fits[batch] = fit_groups(groups[batch], weigh(groups[batch]), kSearch);
  }
  const Grid grid = make_grid(fits, block.data());
  finish_block(groups, fits, grid, block.data());
}

void encode_q4_k_weighted(std::span<const float, kQ4KElements> x,
                          std::span<const float, kQ4KElements> importance,
                          std::span<std::byte, kQ4KBytes> block) {
  if (!all_finite(x)) return fill_non_finite(block);
  float squares = 0;
  for (const float element : x) squares += element * element;
  const float variance = 2 * squares / static_cast<float>(kQ4KElements);
  std::array<Group, kBatches> groups{};
  std::array<Fit, kBatches> fits;
  std::array<Lanes, kBatches> group_weights{};
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    const std::size_t first = batch * kLanes * kGroupElements;
    groups[batch] = load(x.data() + first);
    const Weights weights = weigh_by(groups[batch], load(importance.data() + first), variance);
    group_weights[batch] = weights.sum;
    fits[batch] = fit_groups(groups[batch], weights, kWeightedSearch);
  }
  const Grid grid = make_weighted_grid(fits, group_weights, block.data());
  finish_block(groups, fits, grid, block.data());
}

void decode_q4_k(std::span<const std::byte, kQ4KBytes> block, std::span<float, kQ4KElements> out) {
  const float scale = load_f16(&block[kQ4KScaleField]);
  const float minimum = load_f16(&block[kQ4KMinimumField]);
  const Grid grid = unpack(&block[kPacked]);
  for (std::size_t j = 0; j < kGroups; ++j) {
    const float group_scale = scale * static_cast<float>(grid.scales[j]);
    const float group_minimum = minimum * static_cast<float>(grid.mins[j]);
    const std::byte* stripe = &block[kValues + j / 2 * kGroupElements];
    const unsigned shift = j % 2 == 0 ? 0 : 4;
    float* to = out.data() + j * kGroupElements;
    for (std::size_t i = 0; i < kGroupElements; ++i) {
      const std::uint32_t value = (std::to_integer<std::uint32_t>(stripe[i]) >> shift) & 15U;
      to[i] = group_scale * static_cast<float>(value) - group_minimum;
    }
  }
}

}  // namespace tenzro::tensor
