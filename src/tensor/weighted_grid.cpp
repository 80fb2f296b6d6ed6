#include "weighted_grid.hpp"

#include <algorithm>

#include "rounding.hpp"

namespace tenzro::tensor {
namespace {

constexpr int kPlaceMax = 63;
constexpr float kValueMin = 1e-15F;  ///< below it everything is zero
constexpr int kSteps = 4;
constexpr float kStep = 0.1F;
constexpr int kRounds = 5;

using Values = std::span<const float, kGridGroups>;

int place_of(float value) {
  return std::min(kPlaceMax, nearest_int(value));
}

/// Weighted squared error of rounding with `inverse`.
float error_of(Values values, Values weights, float inverse) {
  const float step = 1.0F / inverse;
  float error = 0;
  for (std::size_t i = 0; i < kGridGroups; ++i) {
    const float difference = values[i] - step * static_cast<float>(place_of(inverse * values[i]));
    error += weights[i] * difference * difference;
  }
  return error;
}

float best_inverse(Values values, Values weights, float largest) {
  float best = static_cast<float>(kPlaceMax) / largest;
  float best_error = error_of(values, weights, best);
  for (int step = -kSteps; step <= kSteps; ++step) {
    if (step == 0) continue;
    const float inverse =
        (kStep * static_cast<float>(step) + static_cast<float>(kPlaceMax)) / largest;
    const float error = error_of(values, weights, inverse);
    if (error >= best_error) continue;
    best_error = error;
    best = inverse;
  }
  return best;
}

/// Weighted sums of value x place and of place squared.
struct Sums {
  float xl = 0;
  float l2 = 0;
};

/// Moves one place at a time to where the step's own fit wants it, if that fits better.
bool improve(Values values, Values weights, WeightedGrid& grid, Sums& sums) {
  bool is_changed = false;
  for (std::size_t i = 0; i < kGridGroups; ++i) {
    const float weight = weights[i];
    const auto old = static_cast<float>(grid.places[i]);
    Sums without{sums.xl - weight * values[i] * old, sums.l2 - weight * old * old};
    if (!(without.xl > 0) || !(without.l2 > 0)) continue;
    const int place = place_of(values[i] * without.l2 / without.xl);
    if (place == grid.places[i]) continue;
    const auto moved = static_cast<float>(place);
    without.xl += weight * values[i] * moved;
    without.l2 += weight * moved * moved;
    if (!(without.xl * without.xl * sums.l2 > sums.xl * sums.xl * without.l2)) continue;
    grid.places[i] = static_cast<std::uint8_t>(place);
    sums = without;
    is_changed = true;
  }
  return is_changed;
}

}  // namespace

WeightedGrid fit_weighted_grid(Values values, Values weights) {
  WeightedGrid grid;
  const float largest = std::max(0.0F, *std::max_element(values.begin(), values.end()));
  if (largest < kValueMin) return grid;
  const float inverse = best_inverse(values, weights, largest);
  Sums sums;
  for (std::size_t i = 0; i < kGridGroups; ++i) {
    const int place = place_of(inverse * values[i]);
    const auto as_float = static_cast<float>(place);
    grid.places[i] = static_cast<std::uint8_t>(place);
    sums.xl += weights[i] * values[i] * as_float;
    sums.l2 += weights[i] * as_float * as_float;
  }
  for (int round = 0; round < kRounds; ++round) {
    if (!improve(values, weights, grid, sums)) break;
  }
  grid.step = sums.l2 > 0.0F ? sums.xl / sums.l2 : 0.0F;
  return grid;
}

}  // namespace tenzro::tensor
