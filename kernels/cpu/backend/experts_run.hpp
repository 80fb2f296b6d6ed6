#pragma once
/// \file
/// One ExpertsJob, run in waves.
///
/// A wave is a list of pieces (some rows of one expert) whose intermediate rows fit the scratch
/// limit, largest first. Each wave is two parallel steps: first the intermediate rows, in slices of
/// their columns; then the output, in slices of its columns. The slices change who computes an
/// output and when, never how: an output is one kernel call's business alone. Input rows are
/// converted once, before the first wave, to what any piece wants; pieces that run by tiles gather
/// theirs into tiles before each step. Thread: made and run by one; its slices run on the
/// executor's.
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tenzro/compute/backend.hpp"

#include "kernels/cpu/backend/multiplier.hpp"
#include "kernels/cpu/backend/packed_expert.hpp"
#include "kernels/cpu/backend/tile_rows.hpp"

namespace tenzro::kernels {

class ExpertsRun {
 public:
  ExpertsRun(const KernelSet& kernels, const compute::ExpertsJob& job, compute::Executor& executor,
             std::size_t scratch_bytes_max);

  void run();

 private:
  /// Rows [first, first + count) of a batch.
  struct Piece {
    const compute::ExpertBatch* batch = nullptr;
    const PackedExpert* expert = nullptr;
    std::size_t first = 0;
    std::size_t count = 0;
    Path gate;  ///< by tiles exactly where `up` is, and then in its format
    Path up;
    Path down;
    std::size_t hidden_at = 0;  ///< offset of its intermediate rows in hidden_
    std::size_t tiles_at = 0;   ///< offset of its rows as tiles in tiles_, a multiple of 64
  };

  enum class Half { hidden, output };

  struct Slice {
    std::size_t piece = 0;
    Columns columns;
  };

  void make_pieces();
  void make_pieces_of(const compute::ExpertBatch& batch);
  void set_paths(Piece& piece) const;
  void convert_input();
  void convert_input_to(RowFormat format);
  [[nodiscard]] std::size_t place_wave(std::size_t begin);
  void run_wave(std::size_t begin, std::size_t end);
  void pack_tiles(std::size_t begin, std::size_t end, Half half);
  [[nodiscard]] std::vector<Slice> slices_of(
      std::size_t begin, std::size_t end, const std::function<double(const Piece&)>& cost,
      const std::function<std::size_t(const Piece&)>& columns) const;
  // expert_halves.cpp
  void make_hidden(const Piece& piece, Columns columns) const;
  void make_hidden_by_tiles(const Piece& piece, Columns columns) const;
  void make_hidden_tile(const Piece& piece, Columns step, std::size_t row,
                        std::span<const void* const> gate_rows,
                        std::span<const void* const> up_rows) const;
  void finish_hidden(const Piece& piece, Columns step, std::size_t row, std::size_t rows,
                     const float* gate, float* up) const;
  void make_output(const Piece& piece, Columns columns) const;
  [[nodiscard]] std::vector<const void*> input_rows(const Piece& piece, RowFormat format) const;
  [[nodiscard]] std::vector<const void*> hidden_rows(const Piece& piece) const;
  [[nodiscard]] static std::size_t hidden_row_bytes(const Piece& piece);

  Multiplier multiplier_;
  const compute::ExpertsJob* job_;
  compute::Executor* executor_;
  std::size_t scratch_bytes_max_;
  std::vector<Piece> pieces_;
  /// By RowFormat; null where no piece wants it, and for f32, which is the job's own.
  std::array<std::unique_ptr<std::byte[]>, kRowFormats> input_;
  std::unique_ptr<std::byte[]> hidden_;  ///< rows in the format that each down projection wants
  Lines tiles_;                          ///< the rows that the present step reads, as tiles
};

}  // namespace tenzro::kernels
