#include "kernels/cpu/backend/experts_run.hpp"

#include <algorithm>

#include "tenzro/base/assert.hpp"

namespace tenzro::kernels {
namespace {

// Rows of a piece: enough that weights coming from memory are used many times, few enough that the
// rows' activations share the L2 cache with the panels they meet. It has 1 MiB on the machines this
// was measured on, and 2 MiB on those with tiles, whose kernels unpack a panel once for all rows of
// a piece.
constexpr std::size_t kPieceRowsMin = 32;
constexpr std::size_t kPieceRowsMax = 128;
constexpr std::size_t kPieceActivationBytes = std::size_t{400} << 10U;
constexpr std::size_t kTilePieceRowsMax = 256;
constexpr std::size_t kTileActivationBytes = std::size_t{1} << 20U;

const PackedExpert& packed(const compute::ExpertBatch& batch) {
  return static_cast<const PackedExpert&>(*batch.expert);
}

std::size_t piece_rows(const Path& path, std::size_t d_model) {
  if (path.tiles == nullptr) {
    const std::size_t fitting =
        kPieceActivationBytes / row_bytes(path.format, d_model) / kRowTile * kRowTile;
    return std::clamp(fitting, kPieceRowsMin, kPieceRowsMax);
  }
  constexpr std::size_t kTwoTiles = 2 * kTileRows;
  const std::size_t fitting =
      kTileActivationBytes / tiles_bytes(path.format, kTwoTiles, d_model) * kTwoTiles;
  return std::clamp(fitting, kPieceRowsMin, kTilePieceRowsMax);
}

/// Bytes that the rows take as tiles, in the step that needs more.
std::size_t tile_bytes(const Path& up, const Path& down, const PackedExpert& expert,
                       std::size_t rows) {
  const std::size_t input =
      up.tiles != nullptr ? tiles_bytes(up.format, rows, expert.d_model()) : 0;
  const std::size_t hidden =
      down.tiles != nullptr ? tiles_bytes(down.format, rows, expert.d_ff()) : 0;
  return std::max(input, hidden);
}

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
  make_pieces();
  convert_input();
  for (std::size_t begin = 0; begin < pieces_.size();) {
    const std::size_t end = place_wave(begin);
    run_wave(begin, end);
    begin = end;
  }
}

void ExpertsRun::set_paths(Piece& piece) const {
  const PackedExpert& expert = *piece.expert;
  piece.up = multiplier_.path_for(expert.up.type, piece.count);
  piece.down = multiplier_.path_for(expert.down.type, piece.count);
  piece.gate = expert.gate ? multiplier_.path_for(expert.gate->type, piece.count) : piece.up;
  const bool are_alike = (piece.gate.tiles == nullptr) == (piece.up.tiles == nullptr) &&
                         piece.gate.format == piece.up.format;
  if (are_alike || (piece.gate.tiles == nullptr && piece.up.tiles == nullptr)) return;
  piece.up = {.tiles = nullptr, .format = multiplier_.format_for(expert.up.type)};
  piece.gate = {.tiles = nullptr, .format = multiplier_.format_for(expert.gate->type)};
}

void ExpertsRun::make_pieces() {
  for (const compute::ExpertBatch& batch : job_->batches) make_pieces_of(batch);
  // The largest first: what is begun last should end soon. Pieces of a batch stay together.
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return a.batch->rows.size() > b.batch->rows.size();
  });
}

void ExpertsRun::make_pieces_of(const compute::ExpertBatch& batch) {
  Piece piece{.batch = &batch, .expert = &packed(batch)};
  piece.count = batch.rows.size();
  set_paths(piece);
  const std::size_t a_row = hidden_row_bytes(piece) +
                            tile_bytes(piece.up, piece.down, *piece.expert, kTileRows) / kTileRows;
  const std::size_t fitting = std::max(kRowTile, scratch_bytes_max_ / a_row / kRowTile * kRowTile);
  const std::size_t rows = std::min(fitting, piece_rows(piece.up, job_->d_model));
  for (; piece.first < batch.rows.size(); piece.first += rows) {
    piece.count = std::min(rows, batch.rows.size() - piece.first);
    set_paths(piece);
    pieces_.push_back(piece);
  }
}

void ExpertsRun::convert_input() {
  for (const Piece& piece : pieces_) {
    convert_input_to(piece.up.format);
    convert_input_to(piece.gate.format);
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

/// Gives the pieces from `begin` on their places in the scratch while they fit; the end of them.
std::size_t ExpertsRun::place_wave(std::size_t begin) {
  std::size_t hidden = 0;
  std::size_t tiles = 0;
  std::size_t end = begin;
  for (; end < pieces_.size(); ++end) {
    Piece& piece = pieces_[end];
    const std::size_t rows = piece.count * hidden_row_bytes(piece);
    const std::size_t tiled = tile_bytes(piece.up, piece.down, *piece.expert, piece.count);
    if (end > begin && hidden + tiles + rows + tiled > scratch_bytes_max_) break;
    piece.hidden_at = hidden;
    piece.tiles_at = tiles;
    hidden += rows;
    tiles += tiled;
  }
  hidden_.reset();  // first, so that two waves are never held
  tiles_.reset();
  hidden_ = std::make_unique_for_overwrite<std::byte[]>(hidden);
  if (tiles != 0) tiles_ = make_lines(tiles);
  return end;
}

void ExpertsRun::run_wave(std::size_t begin, std::size_t end) {
  const auto hidden_cost = [this](const Piece& piece) {
    return multiplier_.microseconds(piece.expert->up, piece.count, piece.expert->d_ff()) *
           (piece.expert->gate ? 2 : 1);
  };
  const auto output_cost = [this](const Piece& piece) {
    return multiplier_.microseconds(piece.expert->down, piece.count, piece.expert->d_model());
  };
  pack_tiles(begin, end, Half::hidden);
  const auto hidden_slices =
      slices_of(begin, end, hidden_cost, [](const Piece& piece) { return piece.expert->d_ff(); });
  executor_->parallel_for(hidden_slices.size(), [&](std::size_t i) {
    make_hidden(pieces_[hidden_slices[i].piece], hidden_slices[i].columns);
  });
  pack_tiles(begin, end, Half::output);
  const auto output_slices = slices_of(begin, end, output_cost,
                                       [](const Piece& piece) { return piece.expert->d_model(); });
  executor_->parallel_for(output_slices.size(), [&](std::size_t i) {
    make_output(pieces_[output_slices[i].piece], output_slices[i].columns);
  });
}

void ExpertsRun::pack_tiles(std::size_t begin, std::size_t end, Half half) {
  struct Tile {
    std::size_t piece = 0;
    std::size_t row = 0;
  };

  std::vector<Tile> tiles;
  for (std::size_t i = begin; i < end; ++i) {
    const Path& path = half == Half::hidden ? pieces_[i].up : pieces_[i].down;
    if (path.tiles == nullptr) continue;
    for (std::size_t row = 0; row < pieces_[i].count; row += kTileRows) tiles.push_back({i, row});
  }
  if (tiles.empty()) return;
  executor_->parallel_for(tiles.size(), [&](std::size_t i) {
    const Piece& piece = pieces_[tiles[i].piece];
    const bool is_input = half == Half::hidden;
    const RowFormat format = is_input ? piece.up.format : piece.down.format;
    const std::size_t k = is_input ? piece.expert->d_model() : piece.expert->d_ff();
    const auto rows = is_input ? input_rows(piece, format) : hidden_rows(piece);
    const std::size_t row = tiles[i].row;
    std::byte* to = bytes_of(tiles_) + piece.tiles_at + tiles_bytes(format, row, k);
    pack_tile(format, std::span(rows).subspan(row, std::min(kTileRows, rows.size() - row)), k, to);
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

}  // namespace tenzro::kernels
