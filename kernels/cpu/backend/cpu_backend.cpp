#include "kernels/cpu/backend/cpu_backend.hpp"

#include <algorithm>
#include <string>

#include <unistd.h>

#include "tenzro/base/assert.hpp"

#include "kernels/cpu/backend/experts_run.hpp"
#include "kernels/cpu/backend/multiplier.hpp"
#include "kernels/cpu/backend/packed_expert.hpp"
#include "kernels/cpu/backend/streamed_run.hpp"

namespace tenzro::kernels {
namespace {

std::uint64_t physical_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

}  // namespace

CpuBackend::CpuBackend(const KernelSet& kernels, std::size_t scratch_bytes_max)
    : kernels_(kernels), row_encoder_(kernels.isa), scratch_bytes_max_(scratch_bytes_max) {}

std::string_view CpuBackend::name() const {
  switch (kernels_.isa) {
    case Isa::scalar:
      return "cpu";
    case Isa::avx2:
      return "cpu-avx2";
    case Isa::avx512:
      return "cpu-avx512";
    case Isa::avx512vnni:
      return "cpu-avx512-vnni";
    case Isa::amx:
      return "cpu-amx";
  }
  return "cpu";
}

std::vector<compute::Device> CpuBackend::devices() const {
  return {{.name = std::string(name()), .memory_bytes = physical_memory_bytes()}};
}

Result<compute::ExpertMemory> CpuBackend::memory_of(const compute::ExpertView& expert) const {
  return packed_memory_of(expert);
}

Result<std::shared_ptr<const compute::ResidentExpert>> CpuBackend::upload_expert(
    const compute::ExpertView& expert, compute::Executor& executor) {
  if (expert.stream) return open_expert(expert, executor);
  auto packed = pack_expert(expert, executor);
  if (!packed) return fail(packed.error());
  return std::shared_ptr<const compute::ResidentExpert>(std::move(*packed));
}

Result<std::shared_ptr<const compute::ResidentMatrix>> CpuBackend::upload_matrix(
    const compute::MatrixView& matrix, std::span<const float> bias, compute::Executor& executor) {
  auto packed = pack_router(matrix, bias, executor);
  if (!packed) return fail(packed.error());
  return std::shared_ptr<const compute::ResidentMatrix>(std::move(*packed));
}

Status CpuBackend::run_experts(const compute::ExpertsJob& job, compute::Executor& executor) {
  const auto is_streamed = [](const compute::ExpertBatch& batch) {
    return batch.expert->is_streamed();
  };
  if (std::none_of(job.batches.begin(), job.batches.end(), is_streamed)) {
    ExpertsRun(kernels_, job, executor, scratch_bytes_max_).run();
    return {};
  }
  std::vector<compute::ExpertBatch> held;
  const Multiplier multiplier(kernels_, job.profile);
  for (const compute::ExpertBatch& batch : job.batches) {
    if (!is_streamed(batch)) {
      held.push_back(batch);
      continue;
    }
    StreamedRun run(multiplier, job, batch, executor, scratch_bytes_max_);
    if (Status ran = run.run(); !ran) return ran;
  }
  compute::ExpertsJob rest = job;
  rest.batches = held;
  ExpertsRun(kernels_, rest, executor, scratch_bytes_max_).run();
  return {};
}

Status CpuBackend::run_matmul(const compute::MatmulJob& job, compute::Executor& executor) {
  const PackedMatrix& matrix = static_cast<const PackedRouter&>(*job.matrix).matrix;
  const Multiplier multiplier(kernels_, job.profile);
  const std::size_t rows = job.input_rows;
  const RowFormat format = multiplier.format_for(matrix.type);
  const std::size_t stride = row_bytes(format, matrix.cols);
  std::unique_ptr<std::byte[]> converted;
  const auto* base = static_cast<const std::byte*>(static_cast<const void*>(job.input));
  if (format != RowFormat::f32) {
    converted = std::make_unique_for_overwrite<std::byte[]>(rows * stride);
    base = converted.get();
    for (std::size_t row = 0; row < rows; ++row) {
      multiplier.convert(format, job.input + row * matrix.cols, matrix.cols,
                         converted.get() + row * stride);
    }
  }
  std::vector<const void*> x(rows);
  for (std::size_t row = 0; row < rows; ++row) x[row] = base + row * stride;
  const double cost = multiplier.microseconds(matrix, rows, matrix.rows);
  const std::size_t panels = (matrix.rows + kPanelOutputs - 1) / kPanelOutputs;
  const std::size_t slices =
      slice_count(cost, slice_microseconds(cost, executor.concurrency()), panels);
  executor.parallel_for(slices, [&](std::size_t index) {
    const Columns columns = slice_of(matrix.rows, kPanelOutputs, slices, index);
    multiplier.multiply(matrix, columns, x, job.out + columns.begin, matrix.rows);
  });
  return {};
}

Result<std::unique_ptr<compute::Backend>> make_cpu_backend(const CpuOptions& options) {
  const Isa isa = options.isa.value_or(best_isa());
  if (!is_available(isa)) {
    return fail(
        ErrorCode::infrastructure, "isa " + std::string(name_of(isa)),
        "is not available on this CPU; the best here is " + std::string(name_of(best_isa())));
  }
  return std::unique_ptr<compute::Backend>(
      std::make_unique<CpuBackend>(kernels_up_to(isa), options.scratch_bytes_max));
}

}  // namespace tenzro::kernels
