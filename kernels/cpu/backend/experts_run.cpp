#include "kernels/cpu/backend/experts_run.hpp"

#include <algorithm>
#include <array>

#include "tenzro/base/assert.hpp"

namespace tenzro::kernels {
namespace {

// Rows of a piece: enough that weights coming from memory are used many times, few enough that the
// rows' activations share the L2 cache (1 MiB on the machines this was measured on) with the panels
// they meet.
constexpr std::size_t kPieceRowsMin = 32;
constexpr std::size_t kPieceRowsMax = 128;
constexpr std::size_t kPieceActivationBytes = std::size_t{400} << 10U;

// Columns of a tile of intermediate rows. One tile of rows takes them four panels at a time, as the
// kernels like it for few rows; with several tiles the panels of gate and up must stay in the cache
// until the last tile has met them.
constexpr std::size_t kHiddenStepFew = 2 * kBlock;
constexpr std::size_t kHiddenStepMany = kBlock;

const PackedExpert& packed(const compute::ExpertBatch& batch) {
  return static_cast<const PackedExpert&>(*batch.expert);
}

std::size_t piece_rows(std::size_t row_bytes) {
  return std::clamp(kPieceActivationBytes / row_bytes / kRowTile * kRowTile, kPieceRowsMin,
                    kPieceRowsMax);
}

TzActivationKind kind_of(compute::Activation activation) {
  return static_cast<TzActivationKind>(activation);
}

constexpr bool has_number_of(compute::Activation activation, TzActivationKind kind) {
  return static_cast<int>(activation) == static_cast<int>(kind);
}

static_assert(has_number_of(compute::Activation::silu, TzActivationKind::silu));
static_assert(has_number_of(compute::Activation::silu_clamped, TzActivationKind::silu_clamped));
static_assert(has_number_of(compute::Activation::swigluoai, TzActivationKind::swiglu_oai));
static_assert(has_number_of(compute::Activation::gelu_tanh, TzActivationKind::gelu_tanh));
static_assert(has_number_of(compute::Activation::relu2, TzActivationKind::relu2));
static_assert(has_number_of(compute::Activation::situ, TzActivationKind::situ));

}  // namespace

ExpertsRun::ExpertsRun(const KernelSet& kernels, const compute::ExpertsJob& job,
                       compute::Executor& executor, std::size_t scratch_bytes_max)
    : multiplier_(kernels, job.profile),
      job_(&job),
      executor_(&executor),
      scratch_bytes_max_(scratch_bytes_max) {
  for (const compute::ExpertBatch& batch : job.batches) {
    TENZRO_ASSERT(packed(batch).d_model() == job.d_model);
    for (const std::uint32_t row : batch.rows) TENZRO_ASSERT(row < job.input_rows);
  }
}

void ExpertsRun::run() {
  convert_input();
  make_pieces();
  std::size_t begin = 0;
  while (begin < pieces_.size()) {
    std::size_t bytes = 0;
    std::size_t end = begin;
    for (; end < pieces_.size(); ++end) {
      const std::size_t piece_bytes = pieces_[end].count * hidden_row_bytes(*pieces_[end].expert);
      if (end > begin && bytes + piece_bytes > scratch_bytes_max_) break;
      pieces_[end].hidden_at = bytes;
      bytes += piece_bytes;
    }
    hidden_.reset();  // first, so that two waves are never held
    hidden_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    run_wave(begin, end);
    begin = end;
  }
}

void ExpertsRun::convert_input() {
  for (const compute::ExpertBatch& batch : job_->batches) {
    const PackedExpert& expert = packed(batch);
    convert_input_to(multiplier_.format_for(expert.up.type));
    if (expert.gate) convert_input_to(multiplier_.format_for(expert.gate->type));
  }
}

void ExpertsRun::convert_input_to(RowFormat format) {
  std::unique_ptr<std::byte[]>& rows = input_.at(static_cast<std::size_t>(format));
  if (format == RowFormat::f32 || rows != nullptr) return;
  const std::size_t stride = row_bytes(format, job_->d_model);
  rows = std::make_unique_for_overwrite<std::byte[]>(job_->input_rows * stride);
  constexpr std::size_t kRowsASlice = 64;
  const std::size_t slices = (job_->input_rows + kRowsASlice - 1) / kRowsASlice;
  executor_->parallel_for(slices, [&](std::size_t slice) {
    const std::size_t end = std::min<std::size_t>((slice + 1) * kRowsASlice, job_->input_rows);
    for (std::size_t row = slice * kRowsASlice; row < end; ++row) {
      multiplier_.convert(format, job_->input + row * job_->d_model, job_->d_model,
                          rows.get() + row * stride);
    }
  });
}

void ExpertsRun::make_pieces() {
  for (const compute::ExpertBatch& batch : job_->batches) {
    const PackedExpert& expert = packed(batch);
    const std::size_t input_bytes =
        row_bytes(multiplier_.format_for(expert.up.type), expert.d_model());
    const std::size_t fitting =
        std::max(kRowTile, scratch_bytes_max_ / hidden_row_bytes(expert) / kRowTile * kRowTile);
    const std::size_t rows = std::min(fitting, piece_rows(input_bytes));
    for (std::size_t first = 0; first < batch.rows.size(); first += rows) {
      pieces_.push_back({.batch = &batch,
                         .expert = &expert,
                         .first = first,
                         .count = std::min(rows, batch.rows.size() - first),
                         .hidden_at = 0});
    }
  }
}

void ExpertsRun::run_wave(std::size_t begin, std::size_t end) {
  const auto hidden_cost = [this](const Piece& piece) {
    return multiplier_.microseconds(piece.expert->up, piece.count, piece.expert->d_ff()) *
           (piece.expert->gate ? 2 : 1);
  };
  const auto output_cost = [this](const Piece& piece) {
    return multiplier_.microseconds(piece.expert->down, piece.count, piece.expert->d_model());
  };
  const auto hidden_slices =
      slices_of(begin, end, hidden_cost, [](const Piece& piece) { return piece.expert->d_ff(); });
  executor_->parallel_for(hidden_slices.size(), [&](std::size_t i) {
    make_hidden(pieces_[hidden_slices[i].piece], hidden_slices[i].columns);
  });
  const auto output_slices = slices_of(begin, end, output_cost,
                                       [](const Piece& piece) { return piece.expert->d_model(); });
  executor_->parallel_for(output_slices.size(), [&](std::size_t i) {
    make_output(pieces_[output_slices[i].piece], output_slices[i].columns);
  });
}

std::vector<ExpertsRun::Slice> ExpertsRun::slices_of(
    std::size_t begin, std::size_t end, const std::function<double(const Piece&)>& cost,
    const std::function<std::size_t(const Piece&)>& columns) const {
  double total = 0.0;
  for (std::size_t i = begin; i < end; ++i) total += cost(pieces_[i]);
  const double slice = slice_microseconds(total, executor_->concurrency());
  std::vector<Slice> slices;
  for (std::size_t group = begin; group < end;) {
    // Pieces of one expert take turns, so that threads meet the same weights at about the same
    // time.
    std::size_t next = group;
    while (next < end && pieces_[next].batch == pieces_[group].batch) ++next;
    const std::size_t width = columns(pieces_[group]);
    const std::size_t count =
        slice_count(cost(pieces_[group]), slice, (width + kBlock - 1) / kBlock);
    for (std::size_t index = 0; index < count; ++index) {
      for (std::size_t i = group; i < next; ++i)
        slices.push_back({i, slice_of(width, kBlock, count, index)});
    }
    group = next;
  }
  return slices;
}

void ExpertsRun::make_hidden(const Piece& piece, Columns columns) const {
  const PackedExpert& expert = *piece.expert;
  const std::vector<const void*> up_rows = input_rows(piece, expert.up);
  const std::vector<const void*> gate_rows =
      expert.gate ? input_rows(piece, *expert.gate) : up_rows;
  const std::size_t width = piece.count <= kRowTile ? kHiddenStepFew : kHiddenStepMany;
  for (std::size_t done = 0; done < columns.count; done += width) {
    const Columns step{.begin = columns.begin + done,
                       .count = std::min(width, columns.count - done)};
    for (std::size_t row = 0; row < piece.count; row += kRowTile) {
      const std::size_t rows = std::min(kRowTile, piece.count - row);
      make_hidden_tile(piece, step, row, {gate_rows.data() + row, rows},
                       {up_rows.data() + row, rows});
    }
  }
}

void ExpertsRun::make_hidden_tile(const Piece& piece, Columns step, std::size_t row,
                                  std::span<const void* const> gate_rows,
                                  std::span<const void* const> up_rows) const {
  const PackedExpert& expert = *piece.expert;
  alignas(64) std::array<float, kRowTile * kHiddenStepFew> gate{};
  alignas(64) std::array<float, kRowTile * kHiddenStepFew> up{};
  if (expert.gate) multiplier_.multiply(*expert.gate, step, gate_rows, gate.data(), step.count);
  multiplier_.multiply(expert.up, step, up_rows, up.data(), step.count);
  multiplier_.activate({.kind = kind_of(expert.spec.activation),
                        .limit = expert.spec.limit,
                        .alpha = expert.spec.alpha,
                        .beta = expert.spec.beta,
                        .linear_beta = expert.spec.linear_beta,
                        .gate = gate.data(),
                        .up = up.data(),
                        .out = up.data(),
                        .n = up_rows.size() * step.count});
  const RowFormat format = hidden_format(expert);
  std::byte* hidden = hidden_.get() + piece.hidden_at + row_bytes(format, step.begin);
  for (std::size_t i = 0; i < up_rows.size(); ++i) {
    std::byte* to = hidden + (row + i) * hidden_row_bytes(expert);
    multiplier_.convert(format, up.data() + i * step.count, step.count, to);
  }
}

void ExpertsRun::make_output(const Piece& piece, Columns columns) const {
  const PackedExpert& expert = *piece.expert;
  std::vector<const void*> rows(piece.count);
  for (std::size_t i = 0; i < piece.count; ++i) {
    rows[i] = hidden_.get() + piece.hidden_at + i * hidden_row_bytes(expert);
  }
  float* out = piece.batch->out + piece.first * expert.d_model() + columns.begin;
  multiplier_.multiply(expert.down, columns, rows, out, expert.d_model());
}

std::vector<const void*> ExpertsRun::input_rows(const Piece& piece,
                                                const PackedMatrix& matrix) const {
  std::vector<const void*> rows(piece.count);
  const RowFormat format = multiplier_.format_for(matrix.type);
  const std::byte* base = format == RowFormat::f32
                              ? static_cast<const std::byte*>(static_cast<const void*>(job_->input))
                              : input_.at(static_cast<std::size_t>(format)).get();
  const std::size_t stride = row_bytes(format, job_->d_model);
  for (std::size_t i = 0; i < piece.count; ++i)
    rows[i] = base + piece.batch->rows[piece.first + i] * stride;
  return rows;
}

RowFormat ExpertsRun::hidden_format(const PackedExpert& expert) const {
  return multiplier_.format_for(expert.down.type);
}

std::size_t ExpertsRun::hidden_row_bytes(const PackedExpert& expert) const {
  return row_bytes(hidden_format(expert), expert.d_ff());
}

}  // namespace tenzro::kernels
