#include "kernels/cases.hpp"

#include <bit>
#include <cmath>

namespace tenzro::testing {
namespace {

/// Uniform in [0, 1).
double uniform(Prng& prng) {
  return static_cast<double>(prng.next() >> 11U) * 0x1p-53;
}

float row_value(RowKind kind, std::size_t index, Prng& prng) {
  const float value = gaussian(prng);
  switch (kind) {
    case RowKind::normal:
      return value;
    case RowKind::huge:
      return value * 1e30F;
    case RowKind::tiny:
      return value * 1e-30F;
    case RowKind::one_outlier:
      return index == 17 ? 1000.0F : value * 1e-3F;
    case RowKind::all_equal:
      return 0.731F;
    case RowKind::subnormal:
      return value * 1e-41F;
    case RowKind::zeros:
      return index % 2 == 0 ? 0.0F : -0.0F;
    case RowKind::mixed:
      return value * std::pow(10.0F, static_cast<float>(prng.below(41)) - 20.0F);
    case RowKind::ties:
      return index % 32 == 0 ? 127.0F
                             : static_cast<float>(static_cast<int>(prng.below(507)) - 253) * 0.5F;
  }
  return value;
}

}  // namespace

float gaussian(Prng& prng) {
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += uniform(prng);
  return static_cast<float>(sum);
}

OwnedMatrix make_matrix(tensor::WeightType type, std::uint32_t rows, std::uint32_t cols,
                        Prng& prng) {
  OwnedMatrix matrix;
  const std::size_t stride = tensor::row_bytes(type, cols);
  matrix.bytes.resize(rows * stride);
  const float deviation = 1.0F / std::sqrt(static_cast<float>(cols));
  std::vector<float> row(cols);
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (float& value : row) value = gaussian(prng) * deviation;
    tensor::encode_row(type, row, std::span(matrix.bytes).subspan(r * stride, stride));
  }
  matrix.view = {.type = type, .rows = rows, .cols = cols, .bytes = matrix.bytes};
  return matrix;
}

std::vector<float> make_row(RowKind kind, std::size_t size, Prng& prng) {
  std::vector<float> row(size);
  for (std::size_t i = 0; i < size; ++i) row[i] = row_value(kind, i, prng);
  return row;
}

std::vector<float> make_rows(std::size_t rows, std::size_t size, Prng& prng) {
  std::vector<float> all;
  all.reserve(rows * size);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::vector<float> row = make_row(kRowKinds[r % std::size(kRowKinds)], size, prng);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

std::vector<float> make_normal_rows(std::size_t rows, std::size_t size, Prng& prng) {
  return make_row(RowKind::normal, rows * size, prng);
}

compute::ExpertView OwnedExpert::view() const {
  compute::ExpertView expert{.spec = spec,
                             .gate = std::nullopt,
                             .up = up.view,
                             .down = down.view,
                             .gate_bias = gate_bias,
                             .up_bias = up_bias,
                             .down_bias = down_bias};
  if (gate) expert.gate = gate->view;
  return expert;
}

OwnedExpert make_expert(ExpertShape shape, tensor::WeightType type, tensor::WeightType down_type,
                        compute::Activation activation, Biases biases, std::uint64_t seed) {
  Prng prng(seed);
  OwnedExpert expert;
  const bool has_gate = activation != compute::Activation::relu2;
  if (has_gate) expert.gate = make_matrix(type, shape.d_ff, shape.d_model, prng);
  expert.up = make_matrix(type, shape.d_ff, shape.d_model, prng);
  expert.down = make_matrix(down_type, shape.d_model, shape.d_ff, prng);
  expert.spec.activation = activation;
  if (activation == compute::Activation::silu_clamped) expert.spec.limit = 1.0F;
  if (biases == Biases::present) {
    if (has_gate) expert.gate_bias = make_row(RowKind::normal, shape.d_ff, prng);
    expert.up_bias = make_row(RowKind::normal, shape.d_ff, prng);
    expert.down_bias = make_row(RowKind::normal, shape.d_model, prng);
  }
  return expert;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

std::string first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return "sizes differ";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) {
      return "at " + std::to_string(i) + " of " + std::to_string(a.size()) + ": " +
             std::to_string(a[i]) + " and " + std::to_string(b[i]);
    }
  }
  return {};
}

}  // namespace tenzro::testing
