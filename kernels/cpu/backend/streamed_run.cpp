#include "kernels/cpu/backend/streamed_run.hpp"

#include <algorithm>

namespace tenzro::kernels {
namespace {

/// Rows that one reading of the weights serves: their activations should stay in the cache.
constexpr std::size_t kRowsMax = 128;

}  // namespace

StreamedRun::StreamedRun(const Multiplier& multiplier, const compute::ExpertsJob& job,
                         const compute::ExpertBatch& batch, compute::Executor& executor,
                         std::size_t scratch_bytes_max)
    : multiplier_(&multiplier),
      job_(&job),
      batch_(&batch),
      executor_(&executor),
      expert_(static_cast<const StreamedExpert*>(batch.expert)),
      scratch_bytes_max_(scratch_bytes_max),
      hidden_format_(multiplier.format_for(expert_->down.type)),
      hidden_row_bytes_(row_bytes(hidden_format_, expert_->d_ff())) {}

Status StreamedRun::run() {
  const std::lock_guard lock(expert_->mutex());
  const std::size_t fitting = scratch_bytes_max_ / hidden_row_bytes_ / kRowTile * kRowTile;
  const std::size_t rows = std::clamp(fitting, kRowTile, kRowsMax);
  for (std::size_t first = 0; first < batch_->rows.size(); first += rows) {
    const Status done = run_rows(first, std::min(rows, batch_->rows.size() - first));
    if (done) continue;
    if (done.error().code != ErrorCode::busy) expert_->note_failure();
    return done;
  }
  return {};
}

Status StreamedRun::run_rows(std::size_t first, std::size_t count) {
  first_ = first;
  count_ = count;
  std::unique_ptr<std::byte[]> up_input;
  std::unique_ptr<std::byte[]> gate_input;
  const RowFormat up_format = multiplier_->format_for(expert_->up.type);
  up_rows_ = input_rows(up_format, up_input);
  gate_rows_ = up_rows_;
  if (expert_->gate && multiplier_->format_for(expert_->gate->type) != up_format)
    gate_rows_ = input_rows(multiplier_->format_for(expert_->gate->type), gate_input);
  hidden_ = std::make_unique_for_overwrite<std::byte[]>(count * hidden_row_bytes_);
  hidden_rows_.resize(count);
  for (std::size_t i = 0; i < count; ++i) hidden_rows_[i] = hidden_.get() + i * hidden_row_bytes_;

  const Status made =
      for_each_step(expert_->d_ff(), expert_->steps.hidden,
                    [this](Columns columns, Slot& slot) { return make_hidden(columns, slot); });
  if (!made) return made;
  return for_each_step(expert_->d_model(), expert_->steps.output,
                       [this](Columns columns, Slot& slot) { return make_output(columns, slot); });
}

std::vector<const void*> StreamedRun::input_rows(RowFormat format,
                                                 std::unique_ptr<std::byte[]>& to) const {
  std::vector<const void*> rows(count_);
  const std::size_t stride = row_bytes(format, job_->d_model);
  if (format != RowFormat::f32) to = std::make_unique_for_overwrite<std::byte[]>(count_ * stride);
  for (std::size_t i = 0; i < count_; ++i) {
    const float* row = job_->input + std::size_t{batch_->rows[first_ + i]} * job_->d_model;
    rows[i] = row;
    if (format == RowFormat::f32) continue;
    rows[i] = to.get() + i * stride;
    multiplier_->convert(format, row, job_->d_model, to.get() + i * stride);
  }
  return rows;
}

Status StreamedRun::for_each_step(std::size_t outputs, std::size_t width, const Step& step) {
  std::vector<Slot>& slots = expert_->slots();
  std::vector<Status> failed(slots.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> is_over{false};
  executor_->parallel_for(slots.size(), [&](std::size_t slot) {
    for (std::size_t at = next.fetch_add(width); at < outputs && !is_over;
         at = next.fetch_add(width)) {
      const Columns columns{.begin = at, .count = std::min(width, outputs - at)};
      failed[slot] = step(columns, slots[slot]);
      if (!failed[slot]) is_over = true;
    }
  });
  for (Status& status : failed) {
    if (!status) return status;
  }
  return {};
}

Status StreamedRun::make_hidden(Columns columns, Slot& slot) const {
  PackedMatrix gate;
  if (expert_->gate) {
    Result<PackedMatrix> read = read_slice(*expert_->gate, columns.begin, columns.count,
                                           *expert_->source, slot.raw, slot.gate);
    if (!read) return fail(read.error());
    gate = std::move(*read);
  }
  const Result<PackedMatrix> up =
      read_slice(expert_->up, columns.begin, columns.count, *expert_->source, slot.raw, slot.up);
  if (!up) return fail(up.error());
  const Columns all{.begin = 0, .count = columns.count};
  for (std::size_t row = 0; row < count_; row += kRowTile) {
    const std::size_t rows = std::min(kRowTile, count_ - row);
    if (expert_->gate)
      multiplier_->multiply(gate, all, std::span(gate_rows_).subspan(row, rows), slot.gate_values,
                            columns.count);
    multiplier_->multiply(*up, all, std::span(up_rows_).subspan(row, rows), slot.up_values,
                          columns.count);
    finish_hidden(columns, row, rows, slot);
  }
  return {};
}

/// As the other half wants it: the columns begin on a multiple of kBlock.
void StreamedRun::finish_hidden(Columns columns, std::size_t row, std::size_t rows,
                                Slot& slot) const {
  const compute::FfnSpec& spec = expert_->spec;
  multiplier_->activate({.kind = static_cast<TzActivationKind>(spec.activation),
                         .limit = spec.limit,
                         .alpha = spec.alpha,
                         .beta = spec.beta,
                         .linear_beta = spec.linear_beta,
                         .gate = slot.gate_values,
                         .up = slot.up_values,
                         .out = slot.up_values,
                         .n = rows * columns.count});
  const std::size_t at = row_bytes(hidden_format_, columns.begin);
  for (std::size_t i = 0; i < rows; ++i) {
    multiplier_->convert(hidden_format_, slot.up_values + i * columns.count, columns.count,
                         hidden_.get() + (row + i) * hidden_row_bytes_ + at);
  }
}

Status StreamedRun::make_output(Columns columns, Slot& slot) const {
  const Result<PackedMatrix> down =
      read_slice(expert_->down, columns.begin, columns.count, *expert_->source, slot.raw, slot.up);
  if (!down) return fail(down.error());
  const std::size_t width = expert_->d_model();
  multiplier_->multiply(*down, {.begin = 0, .count = columns.count}, hidden_rows_,
                        batch_->out + first_ * width + columns.begin, width);
  return {};
}

}  // namespace tenzro::kernels
