#include "support/reference_ffn.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tenzro/base/assert.hpp"
#include "tenzro/tensor/dtype.hpp"

namespace tenzro::testing {
namespace {

constexpr std::size_t kBlock = 32;

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

std::vector<double> rounded_for(const compute::MatrixView& matrix, const std::vector<double>& x,
                                ActivationRounding rounding) {
  const bool rounds = rounding == ActivationRounding::q8_0 && tensor::is_quantized(matrix.type);
  return rounds ? rounded_to_q8_0(x) : x;
}

std::vector<double> reference_row(const compute::ExpertView& expert, const std::vector<double>& x,
                                  ActivationRounding rounding) {
  std::vector<double> hidden =
      reference_matmul(expert.up, rounded_for(expert.up, x, rounding), expert.up_bias);
  if (expert.gate) {
    const auto gate =
        reference_matmul(*expert.gate, rounded_for(*expert.gate, x, rounding), expert.gate_bias);
    for (std::size_t i = 0; i < hidden.size(); ++i)
      hidden[i] = reference_activation(expert.spec, gate[i], hidden[i]);
  } else {
    for (double& value : hidden) value = reference_activation(expert.spec, 0.0, value);
  }
  return reference_matmul(expert.down, rounded_for(expert.down, hidden, rounding),
                          expert.down_bias);
}

}  // namespace

double reference_activation(const compute::FfnSpec& spec, double gate, double up) {
  const double limit = spec.limit;
  switch (spec.activation) {
    case compute::Activation::silu:
      return gate * sigmoid(gate) * up;
    case compute::Activation::silu_clamped: {
      const double g = std::min(gate, limit);
      return g * sigmoid(g) * std::clamp(up, -limit, limit);
    }
    case compute::Activation::swigluoai: {
      const double g = std::min(gate, limit);
      return (std::clamp(up, -limit, limit) + 1.0) * g *
             sigmoid(static_cast<double>(spec.alpha) * g);
    }
    case compute::Activation::gelu_tanh: {
      // 1 + tanh(w) = 2 sigmoid(2w), which does not cancel for negative w.
      const double w = std::sqrt(2.0 / M_PI) * (gate + 0.044715 * gate * gate * gate);
      return gate * sigmoid(2.0 * w) * up;
    }
    case compute::Activation::relu2:
      return up > 0.0 ? up * up : up * 0.0;
    case compute::Activation::situ: {
      const double beta = spec.beta;
      const double linear = spec.linear_beta;
      return beta * std::tanh(gate / beta) * sigmoid(gate) * linear * std::tanh(up / linear);
    }
  }
  TENZRO_ASSERT(false);
  return 0.0;
}

std::vector<double> reference_matmul(const compute::MatrixView& matrix, std::span<const double> x,
                                     std::span<const float> bias) {
  TENZRO_ASSERT(x.size() == matrix.cols);
  std::vector<double> y(matrix.rows);
  std::vector<float> w(matrix.cols);
  for (std::uint32_t n = 0; n < matrix.rows; ++n) {
    tensor::decode_row(matrix.type, matrix.row(n), w);
    double sum = 0.0;
    for (std::size_t k = 0; k < w.size(); ++k) sum += static_cast<double>(w[k]) * x[k];
    y[n] = bias.empty() ? sum : sum + static_cast<double>(bias[n]);
  }
  return y;
}

std::vector<double> rounded_to_q8_0(std::span<const double> x) {
  TENZRO_ASSERT(x.size() % kBlock == 0);
  std::vector<double> y(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += kBlock) {
    float amax = 0.0F;
    for (std::size_t i = 0; i < kBlock; ++i)
      amax = std::max(amax, std::fabs(static_cast<float>(x[begin + i])));
    const float d = amax / 127.0F;
    const float inverse = d > 0.0F && std::isfinite(1.0F / d) ? 1.0F / d : 0.0F;
    const float half = tensor::f16_to_f32(tensor::f32_to_f16(d));
    const float scale = std::isfinite(half) ? half : d;
    for (std::size_t i = 0; i < kBlock; ++i) {
      y[begin + i] = static_cast<double>(std::round(static_cast<float>(x[begin + i]) * inverse)) *
                     static_cast<double>(scale);
    }
  }
  return y;
}

std::vector<float> reference_ffn(const compute::ExpertView& expert, std::span<const float> rows,
                                 ActivationRounding rounding) {
  const std::size_t d_model = expert.d_model();
  TENZRO_ASSERT(rows.size() % d_model == 0);
  std::vector<float> out;
  out.reserve(rows.size());
  for (std::size_t begin = 0; begin < rows.size(); begin += d_model) {
    const auto row = rows.subspan(begin, d_model);
    for (const double value : reference_row(expert, {row.begin(), row.end()}, rounding)) {
      out.push_back(static_cast<float>(value));
    }
  }
  return out;
}

}  // namespace tenzro::testing
