#pragma once
/// \file
/// Rows times packed matrices: what stands between the jobs of the seam and the kernels.
///
/// A multiplier cuts work into tiles of at most 8 rows and says how work is worth slicing. It holds
/// no state but the kernel set, so any thread may use it.
#include <cstddef>
#include <span>

#include "kernels/cpu/abi.hpp"
#include "kernels/cpu/backend/kernel_table.hpp"
#include "kernels/cpu/backend/packed_matrix.hpp"

namespace tenzro::kernels {

/// Rows that one kernel call takes.
inline constexpr std::size_t kRowTile = 8;
/// A Q8_0 block of activations, and the step in which the rows between the two halves of an FFN are
/// made.
inline constexpr std::size_t kBlock = 32;

/// Outputs [begin, begin + count) of a matrix; begin is a multiple of kPanelOutputs.
struct Columns {
  std::size_t begin = 0;
  std::size_t count = 0;
};

class Multiplier {
 public:
  explicit Multiplier(const KernelSet& kernels) : kernels_(&kernels) {}

  /// out[i * out_stride + n] = x[i] · W[columns.begin + n]ᵀ (+ bias). Any number of rows; each
  /// pointer is f32[K] for dense weights and TzQ8Block[K/32] for quantised ones.
  void multiply(const PackedMatrix& matrix, Columns columns, std::span<const void* const> x,
                float* out, std::size_t out_stride) const;

  void quantize(const float* x, std::size_t blocks, TzQ8Block* out) const {
    kernels_->quantize.run(x, blocks, out);
  }

  void activate(const TzActivation& job) const { kernels_->activation.run(&job); }

  /// A guess at the time that `rows` rows times `columns` outputs of the matrix take on one thread.
  [[nodiscard]] double microseconds(const PackedMatrix& matrix, std::size_t rows,
                                    std::size_t columns) const;

 private:
  const KernelSet* kernels_;
};

/// How long a slice of work of `total` microseconds should be, so that each thread gets a few and
/// none is much above a millisecond, nor so short that handing it out costs more than a few per
/// cent.
[[nodiscard]] double slice_microseconds(double total, std::size_t threads);

/// Slices of about `slice` microseconds that work of `total` makes: at least 1, at most
/// `count_max`.
[[nodiscard]] std::size_t slice_count(double total, double slice, std::size_t count_max);

/// Slice `index` of `count` nearly equal ones of [0, total), on multiples of `step`.
[[nodiscard]] Columns slice_of(std::size_t total, std::size_t step, std::size_t count,
                               std::size_t index);

}  // namespace tenzro::kernels
