#pragma once
/// \file
/// The two passes over every value that a receipt is about, as fast as the processor allows.
///
/// Rules
///  - The same bits by every way: integers only.
///  - bf16 is rounded to the nearest, ties to even; a NaN stays one.
///  - A magnitude is a value's bits without the sign: integers that order as magnitudes do, NaN
///    last.
/// Pure. Thread: any.
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenzro::receipts {

/// Values a group.
inline constexpr std::size_t kMagnitudeGroup = 32;

struct RowPasses {
  void (*narrow)(const float* values, std::size_t count, std::uint16_t* out) = nullptr;
  /// The largest magnitude of each of `groups` whole groups.
  void (*group_maxima)(const float* values, std::size_t groups, std::int32_t* out) = nullptr;
};

/// Runs everywhere.
[[nodiscard]] const RowPasses& portable_passes();
/// Nothing where the processor lacks AVX2.
[[nodiscard]] const RowPasses* avx2_passes();
/// The fastest of these here.
[[nodiscard]] const RowPasses& best_passes();

namespace avx2 {  // only where avx2_passes() gives something

void narrow(const float* values, std::size_t count, std::uint16_t* out);
void group_maxima(const float* values, std::size_t groups, std::int32_t* out);

}  // namespace avx2
}  // namespace tenzro::receipts
