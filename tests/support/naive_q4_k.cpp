#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "tenzro/tensor/dtype.hpp"

#include "support/naive_quant.hpp"

namespace tenzro::test {
namespace {

int nearest(float x) {
  return static_cast<int>(std::nearbyint(x));  // ties to even
}

void store_f16(std::uint16_t bits, std::byte* to) {
  to[0] = static_cast<std::byte>(bits & 0xFFU);
  to[1] = static_cast<std::byte>(bits >> 8U);
}

float load_f16(const std::byte* from) {
  const auto high = std::to_integer<std::uint32_t>(from[1]) << 8U;
  return tensor::f16_to_f32(
      static_cast<std::uint16_t>(std::to_integer<std::uint32_t>(from[0]) | high));
}

constexpr std::size_t kGroups = 8;
constexpr std::size_t kGroupElements = 32;
constexpr int kValueMax = 15;
constexpr int kScaleMax = 63;
constexpr std::size_t kPacked = 4;
constexpr std::size_t kValues = 16;
/// The search tries inverse scales (15 - 1 + 0.1 * step) / range for step 0..20.
constexpr int kSearchSteps = 20;
constexpr float kSearchStart = -1.0F;
constexpr float kSearchStep = 0.1F;

using Group = std::span<const float, kGroupElements>;
using Values = std::array<std::uint8_t, kGroupElements>;

/// x is approximated by scale * value + minimum.
struct Fit {
  float scale = 0.0F;
  float minimum = 0.0F;
  Values values{};
};

struct Weights {
  std::array<float, kGroupElements> each{};
  float sum = 0.0F;
  float sum_x = 0.0F;
};

/// Larger elements count more: each weighs the root mean square plus its magnitude.
Weights weigh(Group x) {
  float squares = 0.0F;
  for (const float value : x) squares += value * value;
  const float mean = std::sqrt(squares / static_cast<float>(kGroupElements));
  Weights weights;
  for (std::size_t i = 0; i < x.size(); ++i) {
    weights.each[i] = mean + std::abs(x[i]);
    weights.sum += weights.each[i];
    weights.sum_x += weights.each[i] * x[i];
  }
  return weights;
}

void quantize(Group x, float inverse_scale, float minimum, Values& values) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const int value = nearest(inverse_scale * (x[i] - minimum));
    values[i] = static_cast<std::uint8_t>(std::clamp(value, 0, kValueMax));
  }
}

float weighted_error(Group x, const Weights& weights, const Fit& fit) {
  float error = 0.0F;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float difference = fit.scale * static_cast<float>(fit.values[i]) + fit.minimum - x[i];
    error += weights.each[i] * (difference * difference);
  }
  return error;
}

/// The scale and minimum that fit `fit.values` best (weighted least squares, minimum <= 0); false
/// where the values do not determine them.
bool solve(Group x, const Weights& weights, Fit& fit) {
  float sum_l = 0.0F;
  float sum_l2 = 0.0F;
  float sum_xl = 0.0F;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<float>(fit.values[i]);
    const float weighted = weights.each[i] * value;
    sum_l += weighted;
    sum_l2 += weighted * value;
    sum_xl += weighted * x[i];
  }
  const float determinant = weights.sum * sum_l2 - sum_l * sum_l;
  if (!(determinant > 0.0F)) return false;
  fit.scale = (weights.sum * sum_xl - weights.sum_x * sum_l) / determinant;
  fit.minimum = (sum_l2 * weights.sum_x - sum_l * sum_xl) / determinant;
  if (fit.minimum > 0.0F) {
    fit.minimum = 0.0F;
    fit.scale = sum_xl / sum_l2;
  }
  return true;
}

Fit fit_group(Group x) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const float maximum = *high;
  Fit best;
  best.minimum = std::min(*low, 0.0F);
  if (maximum == best.minimum) return best;
  const Weights weights = weigh(x);
  const float inverse = static_cast<float>(kValueMax) / (maximum - best.minimum);
  best.scale = 1.0F / inverse;
  quantize(x, inverse, best.minimum, best.values);
  float best_error = weighted_error(x, weights, best);
  for (int step = 0; step <= kSearchSteps; ++step) {
    // A better minimum found on the way widens or narrows the range of the steps after it.
    const float levels =
        kSearchStart + kSearchStep * static_cast<float>(step) + static_cast<float>(kValueMax);
    Fit trial;
    quantize(x, levels / (maximum - best.minimum), best.minimum, trial.values);
    if (!solve(x, weights, trial)) continue;
    const float error = weighted_error(x, weights, trial);
    if (error < best_error) {
      best_error = error;
      best = trial;
    }
  }
  return best;
}

/// Scales and mins of all groups on the shared 6-bit grid of the block.
struct Grid {
  std::array<std::uint8_t, kGroups> scales{};
  std::array<std::uint8_t, kGroups> mins{};
};

std::uint8_t on_grid(float value) {
  // The reference narrows to a byte before it caps.
  return std::min(static_cast<std::uint8_t>(nearest(value)), static_cast<std::uint8_t>(kScaleMax));
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

/// Values are chosen again for the scales and mins that are stored; a group whose stored scale is
/// zero keeps those of its fit.
void requantize(Group x, float scale, float minimum, Values& values) {
  if (scale == 0.0F) return;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const int value = nearest((x[i] + minimum) / scale);
    values[i] = static_cast<std::uint8_t>(std::clamp(value, 0, kValueMax));
  }
}

}  // namespace

void encode_naive_q4_k(std::span<const float, 256> x, std::span<std::byte, 144> block) {
  std::array<Fit, kGroups> fits;
  float scale_max = 0.0F;
  float drop_max = 0.0F;  // mins are stored as positive drops below zero
  for (std::size_t j = 0; j < kGroups; ++j) {
    fits[j] = fit_group(Group(x.data() + j * kGroupElements, kGroupElements));
    if (fits[j].scale > scale_max) scale_max = fits[j].scale;
    if (-fits[j].minimum > drop_max) drop_max = -fits[j].minimum;
  }
  const auto levels = static_cast<float>(kScaleMax);
  const float inverse_scale = scale_max > 0.0F ? levels / scale_max : 0.0F;
  const float inverse_drop = drop_max > 0.0F ? levels / drop_max : 0.0F;
  Grid grid;
  for (std::size_t j = 0; j < kGroups; ++j) {
    grid.scales[j] = on_grid(inverse_scale * fits[j].scale);
    grid.mins[j] = on_grid(inverse_drop * -fits[j].minimum);
  }
  pack(grid, &block[kPacked]);
  store_f16(tensor::f32_to_f16(scale_max / levels), &block[0]);
  store_f16(tensor::f32_to_f16(drop_max / levels), &block[2]);

  const float scale = load_f16(&block[0]);
  const float minimum = load_f16(&block[2]);
  for (std::size_t j = 0; j < kGroups; ++j) {
    requantize(Group(x.data() + j * kGroupElements, kGroupElements),
               scale * static_cast<float>(grid.scales[j]),
               minimum * static_cast<float>(grid.mins[j]), fits[j].values);
  }
  for (std::size_t j = 0; j < kGroups; j += 2) {
    std::byte* stripe = &block[kValues + j / 2 * kGroupElements];
    for (std::size_t i = 0; i < kGroupElements; ++i) {
      const std::uint32_t low = fits[j].values[i];
      const std::uint32_t high = fits[j + 1].values[i];
      stripe[i] = static_cast<std::byte>(low | (high << 4U));
    }
  }
}

}  // namespace tenzro::test
