// One slice of one half of an expert FFN: what ExpertsRun hands to the executor.
#include <algorithm>
#include <array>

#include "kernels/cpu/backend/experts_run.hpp"

namespace tenzro::kernels {
namespace {

// Columns of a tile of intermediate rows. With several tiles of rows the panels of gate and up must
// stay in the cache until the last has met them; one tile of rows takes more at a time. One or two
// rows only wait for memory, which a long stream draws best: 27 GB/s of weights for a step of 768
// columns, 24 for one of 64.
constexpr std::size_t kHiddenStepMany = kBlock;
constexpr std::size_t kHiddenStepTile = 2 * kBlock;
constexpr std::size_t kHiddenStepStream = 32 * kBlock;
constexpr std::size_t kStreamRowsMax = 2;

std::size_t hidden_step(std::size_t rows) {
  if (rows <= kStreamRowsMax) return kHiddenStepStream;
  return rows <= kRowTile ? kHiddenStepTile : kHiddenStepMany;
}

static_assert(kStreamRowsMax * kHiddenStepStream >= kRowTile * kHiddenStepTile);

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

void ExpertsRun::make_hidden(const Piece& piece, Columns columns) const {
  if (piece.up.tiles != nullptr) return make_hidden_by_tiles(piece, columns);
  const std::vector<const void*> up_rows = input_rows(piece, piece.up.format);
  const std::vector<const void*> gate_rows =
      piece.expert->gate ? input_rows(piece, piece.gate.format) : up_rows;
  const std::size_t width = hidden_step(piece.count);
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
  // Left as they are: what is read of them was written.
  alignas(64) std::array<float, kStreamRowsMax * kHiddenStepStream> gate;
  alignas(64) std::array<float, kStreamRowsMax * kHiddenStepStream> up;
  if (expert.gate) multiplier_.multiply(*expert.gate, step, gate_rows, gate.data(), step.count);
  multiplier_.multiply(expert.up, step, up_rows, up.data(), step.count);
  finish_hidden(piece, step, row, up_rows.size(), gate.data(), up.data());
}

void ExpertsRun::make_hidden_by_tiles(const Piece& piece, Columns columns) const {
  const PackedExpert& expert = *piece.expert;
  const std::size_t values = piece.count * kHiddenStepMany * sizeof(float);
  const Lines gate_lines = make_lines(expert.gate ? values : sizeof(float));
  const Lines up_lines = make_lines(values);
  const Lines scratch = make_lines(Multiplier::scratch_bytes(expert.d_model()));
  auto* gate = static_cast<float*>(static_cast<void*>(gate_lines.get()));
  auto* up = static_cast<float*>(static_cast<void*>(up_lines.get()));
  const std::byte* tiles = bytes_of(tiles_) + piece.tiles_at;
  for (std::size_t done = 0; done < columns.count; done += kHiddenStepMany) {
    const Columns step{.begin = columns.begin + done,
                       .count = std::min(kHiddenStepMany, columns.count - done)};
    if (expert.gate) {
      Multiplier::multiply_tiles(*piece.gate.tiles, *expert.gate, step, tiles, piece.count, gate,
                                 step.count, scratch.get());
    }
    Multiplier::multiply_tiles(*piece.up.tiles, expert.up, step, tiles, piece.count, up, step.count,
                               scratch.get());
    finish_hidden(piece, step, 0, piece.count, gate, up);
  }
}

/// Activates `rows` rows of one step, in place, and writes them where the other half reads them.
void ExpertsRun::finish_hidden(const Piece& piece, Columns step, std::size_t row, std::size_t rows,
                               const float* gate, float* up) const {
  const compute::FfnSpec& spec = piece.expert->spec;
  multiplier_.activate({.kind = kind_of(spec.activation),
                        .limit = spec.limit,
                        .alpha = spec.alpha,
                        .beta = spec.beta,
                        .linear_beta = spec.linear_beta,
                        .gate = gate,
                        .up = up,
                        .out = up,
                        .n = rows * step.count});
  const RowFormat format = piece.down.format;
  std::byte* hidden = hidden_.get() + piece.hidden_at + row_bytes(format, step.begin);
  for (std::size_t i = 0; i < rows; ++i) {
    std::byte* to = hidden + (row + i) * hidden_row_bytes(piece);
    multiplier_.convert(format, up + i * step.count, step.count, to);
  }
}

void ExpertsRun::make_output(const Piece& piece, Columns columns) const {
  const PackedExpert& expert = *piece.expert;
  float* out = piece.batch->out + piece.first * expert.d_model() + columns.begin;
  if (piece.down.tiles == nullptr) {
    multiplier_.multiply(expert.down, columns, hidden_rows(piece), out, expert.d_model());
    return;
  }
  const Lines scratch = make_lines(Multiplier::scratch_bytes(expert.d_ff()));
  Multiplier::multiply_tiles(*piece.down.tiles, expert.down, columns,
                             bytes_of(tiles_) + piece.tiles_at, piece.count, out, expert.d_model(),
                             scratch.get());
}

std::vector<const void*> ExpertsRun::input_rows(const Piece& piece, RowFormat format) const {
  std::vector<const void*> rows(piece.count);
  const std::byte* base = format == RowFormat::f32
                              ? static_cast<const std::byte*>(static_cast<const void*>(job_->input))
                              : input_.at(static_cast<std::size_t>(format)).get();
  const std::size_t stride = row_bytes(format, job_->d_model);
  for (std::size_t i = 0; i < piece.count; ++i)
    rows[i] = base + piece.batch->rows[piece.first + i] * stride;
  return rows;
}

std::vector<const void*> ExpertsRun::hidden_rows(const Piece& piece) const {
  std::vector<const void*> rows(piece.count);
  for (std::size_t i = 0; i < piece.count; ++i)
    rows[i] = hidden_.get() + piece.hidden_at + i * hidden_row_bytes(piece);
  return rows;
}

std::size_t ExpertsRun::hidden_row_bytes(const Piece& piece) {
  return row_bytes(piece.down.format, piece.expert->d_ff());
}

}  // namespace tenzro::kernels
