#pragma once
/// \file
/// The CPU backend's resident objects.
#include <optional>

#include "tenzro/compute/backend.hpp"

#include "kernels/cpu/backend/packed_matrix.hpp"

namespace tenzro::kernels {

struct PackedExpert final : compute::ResidentExpert {
  compute::FfnSpec spec;
  std::optional<PackedMatrix> gate;
  PackedMatrix up;
  PackedMatrix down;

  [[nodiscard]] std::size_t bytes() const override;

  [[nodiscard]] std::size_t d_model() const { return down.rows; }

  [[nodiscard]] std::size_t d_ff() const { return down.cols; }
};

struct PackedRouter final : compute::ResidentMatrix {
  PackedMatrix matrix;

  [[nodiscard]] std::size_t bytes() const override { return matrix.bytes(); }
};

/// Whether the parts fit each other and their bytes. Error: runtime, naming the projection.
[[nodiscard]] Status check_expert(const compute::ExpertView& expert);

[[nodiscard]] Result<std::shared_ptr<const PackedExpert>> pack_expert(
    const compute::ExpertView& expert, compute::Executor& executor);

}  // namespace tenzro::kernels
