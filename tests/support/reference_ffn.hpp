#pragma once
/// \file
/// The plain reading of an expert FFN, accumulated in double: what kernels and nodes are compared
/// with.
///
/// One row at a time, one loop a matrix, no blocking. It decodes every weight through
/// tensor::decode_row.
#include <cstdint>
#include <span>
#include <vector>

#include "tenzro/compute/weights.hpp"

namespace tenzro::testing {

/// What happens to activations before they meet a quantised matrix.
enum class ActivationRounding : std::uint8_t {
  none,  ///< nothing: what the model means
  q8_0,  ///< Q8_0 blocks of 32 along K, as profile `exact` says; dense matrices see f32 as before
};

/// x -> (gate, up) -> activation -> down, for `rows` rows of [d_model] f32; returns [rows, d_model]
/// f32.
[[nodiscard]] std::vector<float> reference_ffn(const compute::ExpertView& expert,
                                               std::span<const float> rows,
                                               ActivationRounding rounding);

/// The activation alone, in double.
[[nodiscard]] double reference_activation(const compute::FfnSpec& spec, double gate, double up);

/// x · Wᵀ (+ bias), in double; `bias` may be empty.
[[nodiscard]] std::vector<double> reference_matmul(const compute::MatrixView& matrix,
                                                   std::span<const double> x,
                                                   std::span<const float> bias);

/// The values that Q8_0 blocks of 32 stand for, by the activation rule of compute/backend.hpp.
[[nodiscard]] std::vector<double> rounded_to_q8_0(std::span<const double> x);

}  // namespace tenzro::testing
