#include "row_passes.hpp"

#include <algorithm>
#include <bit>

namespace tenzro::receipts {
namespace {

void narrow(const float* values, std::size_t count, std::uint16_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
    out[i] = static_cast<std::uint16_t>(is_nan ? (bits >> 16U) | 0x40U : rounded);
  }
}

void group_maxima(const float* values, std::size_t groups, std::int32_t* out) {
  for (std::size_t group = 0; group < groups; ++group) {
    std::int32_t most = 0;
    for (std::size_t i = 0; i < kMagnitudeGroup; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[group * kMagnitudeGroup + i]);
      most = std::max(most, static_cast<std::int32_t>(bits & 0x7FFFFFFFU));
    }
    out[group] = most;
  }
}

}  // namespace

const RowPasses& portable_passes() {
  static constexpr RowPasses kPasses{narrow, group_maxima};
  return kPasses;
}

const RowPasses* avx2_passes() {
  static constexpr RowPasses kPasses{avx2::narrow, avx2::group_maxima};
  return __builtin_cpu_supports("avx2") ? &kPasses : nullptr;
}

const RowPasses& best_passes() {
  const RowPasses* const fast = avx2_passes();
  return fast != nullptr ? *fast : portable_passes();
}

}  // namespace tenzro::receipts
