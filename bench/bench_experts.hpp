#pragma once
/// \file
/// Experts for the FFN bench: one set of encoded weights, resident as often as the case wants, so
/// that calls that go round them read from memory.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenzro/compute/backend.hpp"

namespace tenzro::bench {

struct Shape {
  std::uint32_t d_model;
  std::uint32_t d_ff;
};

struct Quantisation {
  const char* name;
  tensor::WeightType type;  ///< of gate and up
  tensor::WeightType down;
};

/// The encoded matrices of one SwiGLU expert; every expert of a case has these.
struct Weights {
  Shape shape;
  Quantisation quantisation;
  std::vector<std::byte> gate;  ///< and up: [d_ff, d_model]
  std::vector<std::byte> down;  ///< [d_model, d_ff]

  [[nodiscard]] std::string name() const;

  [[nodiscard]] std::size_t bytes() const { return 2 * gate.size() + down.size(); }

  /// Multiply-adds of one row.
  [[nodiscard]] double products() const { return 3.0 * shape.d_model * shape.d_ff; }
};

[[nodiscard]] Weights make_weights(Shape shape, const Quantisation& quantisation);

using Resident = std::shared_ptr<const compute::ResidentExpert>;

/// At least two; `bytes` of them or a little more. Empty where an upload failed.
[[nodiscard]] std::vector<Resident> upload(compute::Backend& backend, const Weights& weights,
                                           std::size_t bytes);

[[nodiscard]] std::vector<float> make_rows(std::size_t rows, std::size_t width);

}  // namespace tenzro::bench
