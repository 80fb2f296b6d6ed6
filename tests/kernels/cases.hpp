#pragma once
/// \file
/// Matrices, experts and rows for the kernel tests: made from a seed, ordinary and nasty ones.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/compute/weights.hpp"

namespace tenzro::testing {

/// About normal, with mean 0 and deviation 1.
[[nodiscard]] float gaussian(Prng& prng);

struct OwnedMatrix {
  std::vector<std::byte> bytes;
  compute::MatrixView view;  ///< of `bytes`, whose buffer moves along
};

[[nodiscard]] OwnedMatrix make_matrix(tensor::WeightType type, std::uint32_t rows,
                                      std::uint32_t cols, Prng& prng);

/// A row of activations of a kind that has broken kernels before.
enum class RowKind : std::uint8_t {
  normal,
  huge,  ///< about 1e30: Q8_0 scales leave the range of f16
  tiny,  ///< about 1e-30: Q8_0 scales vanish in f16
  one_outlier,
  all_equal,
  subnormal,
  zeros,
  mixed,  ///< magnitudes from 1e-20 to 1e20 side by side
  ties,   ///< amax 127, so that every value is q or q + 1/2 exactly
};
inline constexpr RowKind kRowKinds[] = {
    RowKind::normal,    RowKind::huge,  RowKind::tiny,  RowKind::one_outlier, RowKind::all_equal,
    RowKind::subnormal, RowKind::zeros, RowKind::mixed, RowKind::ties};

[[nodiscard]] std::vector<float> make_row(RowKind kind, std::size_t size, Prng& prng);
/// `rows` rows whose kinds take turns.
[[nodiscard]] std::vector<float> make_rows(std::size_t rows, std::size_t size, Prng& prng);
/// `rows` ordinary rows.
[[nodiscard]] std::vector<float> make_normal_rows(std::size_t rows, std::size_t size, Prng& prng);

inline constexpr tensor::WeightType kWeightTypes[] = {
    tensor::WeightType::f32,  tensor::WeightType::f16,  tensor::WeightType::bf16,
    tensor::WeightType::q8_0, tensor::WeightType::q4_k, tensor::WeightType::q6_k};

struct ExpertShape {
  std::uint32_t d_model = 0;
  std::uint32_t d_ff = 0;
};

enum class Biases : std::uint8_t { absent, present };

struct OwnedExpert {
  std::optional<OwnedMatrix> gate;
  OwnedMatrix up;
  OwnedMatrix down;
  std::vector<float> gate_bias;
  std::vector<float> up_bias;
  std::vector<float> down_bias;
  compute::FfnSpec spec;

  [[nodiscard]] compute::ExpertView view() const;
};

/// Gate and up of type `type`, down of type `down_type`.
[[nodiscard]] OwnedExpert make_expert(ExpertShape shape, tensor::WeightType type,
                                      tensor::WeightType down_type, compute::Activation activation,
                                      Biases biases, std::uint64_t seed);

/// Equal bits, or NaN on both sides.
[[nodiscard]] bool same_bits(float a, float b);
/// The first index at which the two differ (by same_bits), as text for a failure message; empty
/// where none.
[[nodiscard]] std::string first_difference(const std::vector<float>& a,
                                           const std::vector<float>& b);

}  // namespace tenzro::testing
