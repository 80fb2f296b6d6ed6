#pragma once
/// \file
/// How far computed values are from the wanted ones, as one number.
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace tenzro::testing {

/// |got - want| / |want|, in the L2 norm; infinite where they are not equally many.
inline double relative_l2(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = double{got[i]} - double{want[i]};
    difference += d * d;
    norm += double{want[i]} * double{want[i]};
  }
  return std::sqrt(difference / norm);
}

}  // namespace tenzro::testing
