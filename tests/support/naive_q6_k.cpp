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

constexpr std::size_t kGroups = 16;
constexpr std::size_t kGroupElements = 16;
constexpr int kValueOffset = 32;
constexpr std::size_t kLow = 0;
constexpr std::size_t kHigh = 128;
constexpr std::size_t kScales = 192;
constexpr std::size_t kScaleField = 208;
/// Groups (and blocks) below this magnitude become zeros.
constexpr float kMagnitudeMin = 1e-15F;
/// The search tries inverse scales -(32 + 0.1 * step) / largest for step -9..9.
constexpr int kSearchSteps = 9;
constexpr float kSearchStep = 0.1F;

using Group = std::span<const float, kGroupElements>;
using Values = std::span<std::uint8_t, kGroupElements>;

int quantize(float x, float inverse_scale) {
  return std::clamp(nearest(inverse_scale * x), -kValueOffset, kValueOffset - 1);
}

/// Weighted sums over a group for one inverse scale; elements weigh their own square.
struct Sums {
  float xl = 0.0F;
  float l2 = 0.0F;
};

Sums sums_for(Group x, float inverse_scale) {
  Sums sums;
  for (const float element : x) {
    const auto value = static_cast<float>(quantize(element, inverse_scale));
    const float weight = element * element;
    sums.xl += weight * element * value;
    sums.l2 += weight * value * value;
  }
  return sums;
}

void quantize_group(Group x, float inverse_scale, Values values) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    values[i] = static_cast<std::uint8_t>(quantize(x[i], inverse_scale) + kValueOffset);
  }
}

/// The group's scale by weighted least squares over a few roundings. `values` start as the
/// elements' values under it.
float fit_group(Group x, Values values) {
  float magnitude = 0.0F;
  float largest = 0.0F;  // with its sign: it takes the value -32, the longer end of the range
  for (const float element : x) {
    if (std::abs(element) > magnitude) {
      magnitude = std::abs(element);
      largest = element;
    }
  }
  if (magnitude < kMagnitudeMin) {
    std::fill(values.begin(), values.end(), std::uint8_t{0});
    return 0.0F;
  }
  const auto range = static_cast<float>(kValueOffset);
  float inverse = -range / largest;
  Sums sums = sums_for(x, inverse);
  float scale = sums.l2 != 0.0F ? sums.xl / sums.l2 : 0.0F;
  float best = scale * sums.xl;
  float best_inverse = inverse;
  for (int step = -kSearchSteps; step <= kSearchSteps; ++step) {
    if (step == 0) continue;
    inverse = -(range + kSearchStep * static_cast<float>(step)) / largest;
    sums = sums_for(x, inverse);
    if (sums.l2 > 0.0F && sums.xl * sums.xl > best * sums.l2) {
      scale = sums.xl / sums.l2;
      best = scale * sums.xl;
      best_inverse = inverse;
    }
  }
  quantize_group(x, best_inverse, values);
  return scale;
}

void pack(const std::array<std::uint8_t, 256>& values, std::byte* block) {
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

}  // namespace

void encode_naive_q6_k(std::span<const float, 256> x, std::span<std::byte, 210> block) {
  std::fill(block.begin(), block.end(), std::byte{0});
  std::array<std::uint8_t, 256> values{};
  std::array<float, kGroups> scales{};
  float magnitude = 0.0F;
  float largest = 0.0F;
  for (std::size_t j = 0; j < kGroups; ++j) {
    scales[j] = fit_group(Group(x.data() + j * kGroupElements, kGroupElements),
                          Values(values.data() + j * kGroupElements, kGroupElements));
    if (std::abs(scales[j]) > magnitude) {
      magnitude = std::abs(scales[j]);
      largest = scales[j];
    }
  }
  if (magnitude < kMagnitudeMin) return;
  const float inverse = -128.0F / largest;
  store_f16(tensor::f32_to_f16(1.0F / inverse), &block[kScaleField]);
  const float scale = load_f16(&block[kScaleField]);
  for (std::size_t j = 0; j < kGroups; ++j) {
    const auto on_grid = static_cast<std::int8_t>(std::min(127, nearest(inverse * scales[j])));
    block[kScales + j] = static_cast<std::byte>(on_grid);
    const float group_scale = scale * static_cast<float>(on_grid);
    if (group_scale == 0.0F) continue;  // the values of the fit stay
    for (std::size_t i = j * kGroupElements; i < (j + 1) * kGroupElements; ++i) {
      const int value = std::clamp(nearest(x[i] / group_scale), -kValueOffset, kValueOffset - 1);
      values[i] = static_cast<std::uint8_t>(value + kValueOffset);
    }
  }
  pack(values, block.data());
}

}  // namespace tenzro::test
