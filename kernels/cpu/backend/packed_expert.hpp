#pragma once
/// \file
/// The CPU backend's resident objects.
#include <memory>
#include <optional>
#include <span>

#include "tenzro/compute/backend.hpp"

#include "kernels/cpu/backend/packed_matrix.hpp"
#include "kernels/cpu/backend/weight_memory.hpp"

namespace tenzro::kernels {

struct PackedExpert final : compute::ResidentExpert {
  compute::FfnSpec spec;
  WeightMemory memory;  ///< of all three, so that small experts fill huge pages too
  std::optional<PackedMatrix> gate;
  PackedMatrix up;
  PackedMatrix down;

  [[nodiscard]] std::size_t bytes() const override;

  [[nodiscard]] std::size_t d_model() const { return down.rows; }

  [[nodiscard]] std::size_t d_ff() const { return down.cols; }
};

struct PackedRouter final : compute::ResidentMatrix {
  WeightMemory memory;
  PackedMatrix matrix;

  [[nodiscard]] std::size_t bytes() const override { return matrix.bytes(); }
};

/// Whether the parts fit each other and their bytes. Error: runtime, naming the projection.
[[nodiscard]] Status check_expert(const compute::ExpertView& expert);

/// What open_expert makes of it, and what that takes. Error: as check_expert.
[[nodiscard]] Result<compute::ExpertMemory> packed_memory_of(const compute::ExpertView& expert);

/// Error: as check_expert, or no_space.
[[nodiscard]] Result<std::shared_ptr<const PackedExpert>> pack_expert(
    const compute::ExpertView& expert, compute::Executor& executor);

/// Of an expert with a stream: packed as it is read, or, where its stream's memory does not take
/// that, read by every run. Error: as pack_expert, or the source's.
[[nodiscard]] Result<std::shared_ptr<const compute::ResidentExpert>> open_expert(
    const compute::ExpertView& expert, compute::Executor& executor);

/// Error: runtime for parts that do not fit, no_space.
[[nodiscard]] Result<std::shared_ptr<const PackedRouter>> pack_router(
    const compute::MatrixView& matrix, std::span<const float> bias, compute::Executor& executor);

}  // namespace tenzro::kernels
