#include "tenzro/base/assert.hpp"
#include "tenzro/work/bodies.hpp"
#include "tenzro/work/disk_error.hpp"

#include "rows.hpp"

namespace tenzro::work {
namespace {

/// The rows as the Q8_0 carrier would deliver them.
BufferRef round_rows_to_q8(const BufferRef& input, std::uint32_t width,
                           compute::Executor& executor) {
  BufferRef rounded = BufferRef::allocate(input.size());
  const std::span<float> out = rounded.mutable_as<float>();
  const std::span<const float> in = input.as<float>();
  executor.parallel_for(in.size() / width, [&](std::size_t row) {
    std::vector<std::byte> blocks(tensor::row_bytes(tensor::WeightType::q8_0, width));
    tensor::encode_row(tensor::WeightType::q8_0, in.subspan(row * width, width), blocks);
    tensor::decode_row(tensor::WeightType::q8_0, blocks, out.subspan(row * width, width));
  });
  return rounded;
}

}  // namespace

Result<ExpertsResult> run_experts(const RunExperts& job, const JobContext& context) {
  TENZRO_ASSERT(job.width > 0);
  const BufferRef input =
      job.round_to_q8 ? round_rows_to_q8(job.input, job.width, context.executor) : job.input;
  ExpertsResult result;
  std::vector<compute::ExpertBatch> batches;
  for (const RunExperts::Batch& batch : job.batches) {
    BufferRef values = BufferRef::allocate(batch.rows.size() * job.width * sizeof(float));
    batches.push_back({batch.resident.get(), batch.rows, values.mutable_as<float>().data()});
    result.outputs.push_back({batch.expert, batch.rows, std::move(values)});
  }
  const compute::ExpertsJob run{
      .profile = job.profile,
      .input = input.as<float>().data(),
      .input_rows = static_cast<std::uint32_t>(input.size() / sizeof(float) / job.width),
      .d_model = job.width,
      .batches = batches};
  if (auto status = context.backend.run_experts(run, context.executor); !status) {
    const Error& error = status.error();
    return tl::unexpected<Error>(error.code == ErrorCode::io ? disk_error(error) : error);
  }
  for (const ExpertOutput& output : result.outputs) {
    const std::size_t bad = find_non_finite_row(output.values.as<float>(), job.width);
    if (bad == output.rows.size()) continue;
    const std::uint32_t row = output.rows[bad];
    const std::uint32_t token = job.token_names.empty() ? row : job.token_names[row];
    return fail(ErrorCode::runtime, "",
                "moe execute: non-finite output for token " + std::to_string(token));
  }
  return result;
}

}  // namespace tenzro::work
