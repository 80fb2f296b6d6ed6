#include "bench_experts.hpp"

#include <cstdio>
#include <cstring>

#include "tenzro/base/prng.hpp"

namespace tenzro::bench {
namespace {

float half_open(Prng& prng) {
  return static_cast<float>(static_cast<double>(prng.next() >> 11U) * 0x1p-53 - 0.5);
}

/// One encoded row, repeated: encoding every row would take longer than the measurement.
std::vector<std::byte> encode(tensor::WeightType type, std::size_t rows, std::size_t cols,
                              Prng& prng) {
  std::vector<float> values(cols);
  for (float& value : values) value = half_open(prng) * 0.05F;
  const std::size_t stride = tensor::row_bytes(type, cols);
  std::vector<std::byte> bytes(rows * stride);
  tensor::encode_row(type, values, std::span(bytes).first(stride));
  for (std::size_t row = 1; row < rows; ++row)
    std::memcpy(bytes.data() + row * stride, bytes.data(), stride);
  return bytes;
}

}  // namespace

std::string Weights::name() const {
  return std::to_string(shape.d_model) + "x" + std::to_string(shape.d_ff) + " " + quantisation.name;
}

Weights make_weights(Shape shape, const Quantisation& quantisation) {
  Prng prng(1);
  Weights weights{.shape = shape, .quantisation = quantisation, .gate = {}, .down = {}};
  weights.gate = encode(quantisation.type, shape.d_ff, shape.d_model, prng);
  weights.down = encode(quantisation.down, shape.d_model, shape.d_ff, prng);
  return weights;
}

std::vector<Resident> upload(compute::Backend& backend, const Weights& weights, std::size_t bytes) {
  const compute::MatrixView wide{.type = weights.quantisation.type,
                                 .rows = weights.shape.d_ff,
                                 .cols = weights.shape.d_model,
                                 .bytes = weights.gate};
  const compute::MatrixView tall{.type = weights.quantisation.down,
                                 .rows = weights.shape.d_model,
                                 .cols = weights.shape.d_ff,
                                 .bytes = weights.down};
  const compute::ExpertView view{.spec = {},
                                 .gate = wide,
                                 .up = wide,
                                 .down = tall,
                                 .gate_bias = {},
                                 .up_bias = {},
                                 .down_bias = {}};
  compute::SerialExecutor serial;
  std::vector<Resident> experts;
  for (std::size_t held = 0; held < bytes || experts.size() < 2; held += experts.back()->bytes()) {
    auto resident = backend.upload_expert(view, serial);
    if (!resident) {
      std::fprintf(stderr, "%s\n", resident.error().message().c_str());
      return {};
    }
    experts.push_back(*resident);
  }
  return experts;
}

std::vector<float> make_rows(std::size_t rows, std::size_t width) {
  Prng prng(2);
  std::vector<float> values(rows * width);
  for (float& value : values) value = half_open(prng);
  return values;
}

}  // namespace tenzro::bench
