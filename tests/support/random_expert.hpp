#pragma once
/// \file
/// Experts of random weights, dense or quantised, and random rows.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/wire/expert_blob.hpp"

namespace tenzro::testing {

/// Values in [-1, 1), multiples of 2^-12.
[[nodiscard]] inline std::vector<float> random_values(Prng& prng, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(prng.below(8192)) - 4096.0F) / 4096.0F;
  return values;
}

[[nodiscard]] inline BufferRef random_rows(Prng& prng, std::size_t rows, std::size_t width) {
  const std::vector<float> values = random_values(prng, rows * width);
  return BufferRef::copy_of(std::as_bytes(std::span(values)));
}

/// A SwiGLU expert [d_ff, d_model]; both divide by 32.
[[nodiscard]] inline BufferRef random_expert(std::uint64_t seed, std::uint32_t d_model,
                                             std::uint32_t d_ff, tensor::WeightType type) {
  Prng prng(seed);
  std::vector<std::vector<std::byte>> bytes;
  bytes.reserve(3);
  const auto matrix = [&](std::uint32_t rows, std::uint32_t cols) {
    const std::size_t stride = tensor::row_bytes(type, cols);
    std::vector<std::byte>& out = bytes.emplace_back(rows * stride);
    for (std::uint32_t r = 0; r < rows; ++r) {
      const std::vector<float> values = random_values(prng, cols);
      tensor::encode_row(type, values, std::span(out).subspan(r * stride, stride));
    }
    return compute::MatrixView{type, rows, cols, out};
  };
  compute::ExpertView view;
  view.gate = matrix(d_ff, d_model);
  view.up = matrix(d_ff, d_model);
  view.down = matrix(d_model, d_ff);
  return BufferRef::copy_of(wire::make_expert_blob(view));
}

/// The parts of a message in one buffer, as the other side receives them.
[[nodiscard]] inline BufferRef joined(const std::vector<BufferRef>& parts) {
  std::size_t size = 0;
  for (const BufferRef& part : parts) size += part.size();
  BufferRef all = BufferRef::allocate(size);
  auto out = all.mutable_bytes().begin();
  for (const BufferRef& part : parts) {
    out = std::copy(part.bytes().begin(), part.bytes().end(), out);
  }
  return all;
}

}  // namespace tenzro::testing
