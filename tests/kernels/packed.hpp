#pragma once
/// \file
/// A matrix packed as kernels read it, with the memory that it lies in.
#include <span>
#include <utility>

#include <gtest/gtest.h>

#include "tenzro/compute/backend.hpp"

#include "kernels/cpu/backend/packed_matrix.hpp"
#include "kernels/cpu/backend/weight_memory.hpp"

namespace tenzro::kernels {

struct Packed : PackedMatrix {
  WeightMemory memory;
};

inline Packed pack(const compute::MatrixView& view, std::span<const float> bias) {
  compute::SerialExecutor serial;
  EXPECT_TRUE(check_matrix(view, "matrix").has_value());
  WeightMemory memory(packed_bytes(view));
  Packed packed{pack_matrix(view, bias, memory.data(), serial), {}};
  packed.memory = std::move(memory);
  return packed;
}

}  // namespace tenzro::kernels
