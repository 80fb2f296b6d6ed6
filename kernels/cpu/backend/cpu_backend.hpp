#pragma once
/// \file
/// compute::Backend over a kernel set. See tenzro/kernels/cpu.hpp for the rules.
#include "tenzro/compute/backend.hpp"

#include "kernels/cpu/backend/cpu_row_encoder.hpp"
#include "kernels/cpu/backend/kernel_table.hpp"

namespace tenzro::kernels {

class CpuBackend final : public compute::Backend {
 public:
  /// Requires that the CPU can run every kernel of the set.
  CpuBackend(const KernelSet& kernels, std::size_t scratch_bytes_max);

  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] std::vector<compute::Device> devices() const override;
  [[nodiscard]] Result<compute::ExpertMemory> memory_of(
      const compute::ExpertView& expert) const override;
  [[nodiscard]] Result<std::shared_ptr<const compute::ResidentExpert>> upload_expert(
      const compute::ExpertView& expert, compute::Executor& executor) override;
  [[nodiscard]] Result<std::shared_ptr<const compute::ResidentMatrix>> upload_matrix(
      const compute::MatrixView& matrix, std::span<const float> bias,
      compute::Executor& executor) override;
  [[nodiscard]] Status run_experts(const compute::ExpertsJob& job,
                                   compute::Executor& executor) override;
  [[nodiscard]] Status run_matmul(const compute::MatmulJob& job,
                                  compute::Executor& executor) override;

  [[nodiscard]] const tensor::RowEncoder& row_encoder() const override { return row_encoder_; }

  [[nodiscard]] const KernelSet& kernels() const { return kernels_; }

 private:
  KernelSet kernels_;
  CpuRowEncoder row_encoder_;
  std::size_t scratch_bytes_max_;
};

}  // namespace tenzro::kernels
