#include "q6_k.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "f16_field.hpp"
#include "finite.hpp"
#include "lanes.hpp"
#include "rounding.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::size_t kGroups = 16;
constexpr std::size_t kGroupElements = 16;
constexpr std::size_t kBatches = kGroups / kLanes;
constexpr float kValueMin = -32.0F;  // stored as 0
constexpr float kValueMax = 31.0F;
constexpr std::size_t kLow = 0;
constexpr std::size_t kHigh = 128;
constexpr std::size_t kScales = 192;
/// Groups (and blocks) below this magnitude become zeros.
constexpr float kMagnitudeMin = 1e-15F;
/// The search tries inverse scales (-32 - 0.1 * step) / largest for step -9..9.
constexpr int kSearchSteps = 9;
constexpr float kSearchStep = 0.1F;

/// Element i of four groups.
using Group = std::array<Lanes, kGroupElements>;

struct Fit {
  Lanes scale{};
  Group values{};
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

Lanes quantize(Lanes scaled) {
  return rounded_within(scaled, kValueMin, kValueMax);
}

/// Weighted sums over a group for one inverse scale.
struct Sums {
  Lanes xl{};
  Lanes l2{};
};

Sums sums_for(const Group& x, const Group& weights, Lanes inverse_scale) {
  Sums sums;
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    const Lanes value = quantize(inverse_scale * x[i]);
    sums.xl += weights[i] * x[i] * value;
    sums.l2 += weights[i] * value * value;
  }
  return sums;
}

/// Where nothing else is said an element weighs its own square.
Group squares_of(const Group& x) {
  Group squares{};
  for (std::size_t i = 0; i < kGroupElements; ++i) squares[i] = x[i] * x[i];
  return squares;
}

/// Each group's element of largest magnitude, with its sign: it takes the value -32, the longer end
/// of the range.
Lanes largest_of(const Group& x) {
  Lanes magnitude{};
  Lanes largest{};
  for (const Lanes element : x) {
    const Lanes size = select(element < all_lanes(0.0F), -element, element);
    const LaneMask is_larger = size > magnitude;
    magnitude = select(is_larger, size, magnitude);
    largest = select(is_larger, element, largest);
  }
  return largest;
}

/// The groups' scales by weighted least squares over a few roundings, and the values under them.
Fit fit_groups(const Group& x, const Group& weights) {
  const Lanes largest = largest_of(x);
  Lanes inverse = all_lanes(kValueMin) / largest;
  Sums sums = sums_for(x, weights, inverse);
  Fit best;
  best.scale = select(sums.l2 != all_lanes(0.0F), sums.xl / sums.l2, all_lanes(0.0F));
  Lanes best_score = best.scale * sums.xl;
  Lanes best_inverse = inverse;
  for (int step = -kSearchSteps; step <= kSearchSteps; ++step) {
    if (step == 0) continue;
    inverse = all_lanes(kValueMin - kSearchStep * static_cast<float>(step)) / largest;
    sums = sums_for(x, weights, inverse);
    const LaneMask is_better =
        (sums.l2 > all_lanes(0.0F)) & (sums.xl * sums.xl > best_score * sums.l2);
    best.scale = select(is_better, sums.xl / sums.l2, best.scale);
    best_score = select(is_better, best.scale * sums.xl, best_score);
    best_inverse = select(is_better, inverse, best_inverse);
  }
  const LaneMask is_zero =
      (largest < all_lanes(kMagnitudeMin)) & (largest > all_lanes(-kMagnitudeMin));
  best.scale = select(is_zero, all_lanes(0.0F), best.scale);
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    best.values[i] = select(is_zero, all_lanes(kValueMin), quantize(best_inverse * x[i]));
  }
  return best;
}

/// Values are chosen again for the scales that are stored; a group whose stored scale is zero keeps
/// those of its fit.
void requantize(const Group& x, Lanes scale, Group& values) {
  const LaneMask is_kept = scale == all_lanes(0.0F);
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    values[i] = select(is_kept, values[i], quantize(x[i] / scale));
  }
}

void store_values(const Group& values, std::uint8_t* first_group) {
  for (std::size_t i = 0; i < kGroupElements; ++i) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float offset = values[i][lane] - kValueMin;
      first_group[lane * kGroupElements + i] = static_cast<std::uint8_t>(offset);
    }
  }
}

void pack(const std::array<std::uint8_t, kQ6KElements>& values, std::byte* block) {
  for (std::size_t half = 0; half < 2; ++half) {
    const std::uint8_t* from = values.data() + half * 128;
    std::byte* low = block + kLow + half * 64;
    std::byte* high = block + kHigh + half * 32;
    for (std::size_t l = 0; l < 32; ++l) {
      const std::uint32_t a = from[l];
      const std::uint32_t b = from[l + 32];
      const std::uint32_t c = from[l + 64];
      const std::uint32_t d = from[l + 96];
      low[l] = static_cast<std::byte>((a & 15U) | ((c & 15U) << 4U));
      low[l + 32] = static_cast<std::byte>((b & 15U) | ((d & 15U) << 4U));
      high[l] = static_cast<std::byte>((a >> 4U) | ((b >> 4U) << 2U) | ((c >> 4U) << 4U) |
                                       ((d >> 4U) << 6U));
    }
  }
}

using Importance = std::span<const float>;

/// `importance` is empty where elements weigh their own square.
void encode_block(std::span<const float, kQ6KElements> x, Importance importance,
                  std::span<std::byte, kQ6KBytes> block) {
  std::fill(block.begin(), block.end(), std::byte{0});
  if (!all_finite(x)) {
    store_f16_bits(kF16Nan, &block[kQ6KScaleField]);
    return;
  }
  std::array<Group, kBatches> groups{};
  std::array<Fit, kBatches> fits;
  float largest = 0.0F;
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    const std::size_t first = batch * kLanes * kGroupElements;
    groups[batch] = load(x.data() + first);
    const Group weights =
        importance.empty() ? squares_of(groups[batch]) : load(importance.data() + first);
    fits[batch] = fit_groups(groups[batch], weights);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float scale = fits[batch].scale[lane];
      if (std::abs(scale) > std::abs(largest)) largest = scale;
    }
  }
  if (std::abs(largest) < kMagnitudeMin) return;
  const float inverse = -128.0F / largest;
  store_f16_bits(f32_to_f16(1.0F / inverse), &block[kQ6KScaleField]);
  const float scale = load_f16(&block[kQ6KScaleField]);
  std::array<std::uint8_t, kQ6KElements> values{};
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    Lanes scales{};
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const int nearest = nearest_int(inverse * fits[batch].scale[lane]);
      const auto on_grid = static_cast<std::int8_t>(std::min(127, nearest));
      block[kScales + batch * kLanes + lane] = static_cast<std::byte>(on_grid);
      scales[lane] = scale * static_cast<float>(on_grid);
    }
    requantize(groups[batch], scales, fits[batch].values);
    store_values(fits[batch].values, values.data() + batch * kLanes * kGroupElements);
  }
  pack(values, block.data());
}

}  // namespace

void encode_q6_k(std::span<const float, kQ6KElements> x, std::span<std::byte, kQ6KBytes> block) {
  encode_block(x, {}, block);
}

void encode_q6_k_weighted(std::span<const float, kQ6KElements> x,
                          std::span<const float, kQ6KElements> importance,
                          std::span<std::byte, kQ6KBytes> block) {
  encode_block(x, importance, block);
}

void decode_q6_k(std::span<const std::byte, kQ6KBytes> block, std::span<float, kQ6KElements> out) {
  const float scale = load_f16(&block[kQ6KScaleField]);
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(block[i]); };
  for (std::size_t j = 0; j < kGroups; ++j) {
    const float group_scale =
        scale * static_cast<float>(static_cast<std::int8_t>(block[kScales + j]));
    // Eight groups a half: two for each of its four runs of 32 elements.
    const std::size_t half = j / 8;
    const std::size_t run = j % 8 / 2;
    const std::size_t first = j % 2 * kGroupElements;
    const std::size_t low = kLow + half * 64 + run % 2 * 32 + first;
    const std::size_t high = kHigh + half * 32 + first;
    const unsigned low_shift = run < 2 ? 0 : 4;
    const auto high_shift = static_cast<unsigned>(2 * run);
    float* to = out.data() + j * kGroupElements;
    for (std::size_t i = 0; i < kGroupElements; ++i) {
      const std::uint32_t bits =
          ((byte(low + i) >> low_shift) & 15U) | (((byte(high + i) >> high_shift) & 3U) << 4U);
      to[i] = group_scale * (static_cast<float>(bits) + kValueMin);
    }
  }
}

}  // namespace tenzro::tensor
