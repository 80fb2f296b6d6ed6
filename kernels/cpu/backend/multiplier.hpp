#pragma once
/// \file
/// Rows times packed matrices in one profile: what stands between the jobs of the seam and the
/// kernels.
///
/// A multiplier knows which kernel multiplies a weight type, in which form that kernel wants its
/// rows, and how work is worth slicing. It holds no state but the choice of kernels, so any thread
/// may use it.
#include <cstddef>
#include <span>

#include "tenzro/compute/backend.hpp"

#include "kernels/cpu/abi.hpp"
#include "kernels/cpu/backend/kernel_table.hpp"
#include "kernels/cpu/backend/packed_matrix.hpp"

namespace tenzro::kernels {

/// Rows that one kernel call takes.
inline constexpr std::size_t kRowTile = 8;
/// Elements of a Q8_0 block of activations. Rows are converted in runs that begin on multiples of
/// it.
inline constexpr std::size_t kBlock = 32;

/// How a row of activations lies in memory.
enum class RowFormat : std::uint8_t {
  f32,
  q8_0,  ///< TzQ8Block[K/32]
  bf16,  ///< K values, and a zero where K is odd
};
inline constexpr std::size_t kRowFormats = 3;

/// Bytes of `k` elements; for q8_0, k is a multiple of kBlock.
[[nodiscard]] std::size_t row_bytes(RowFormat format, std::size_t k);

/// Outputs [begin, begin + count) of a matrix; begin is a multiple of kPanelOutputs.
struct Columns {
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// How a number of rows meets a matrix: by tiles of rows, or (null) by the kernels that take rows
/// as they are; and the form in which either wants its rows.
struct Path {
  const TileKernel* tiles = nullptr;
  RowFormat format = RowFormat::f32;
};

class Multiplier {
 public:
  Multiplier(const KernelSet& kernels, compute::Profile profile)
      : kernels_(&kernels), profile_(profile) {}

  /// What `multiply` wants for a matrix of this type.
  [[nodiscard]] RowFormat format_for(tensor::WeightType type) const;
  /// What is fastest for `rows` rows at once.
  [[nodiscard]] Path path_for(tensor::WeightType type, std::size_t rows) const;
  /// Writes row_bytes(format, count) bytes.
  void convert(RowFormat format, const float* x, std::size_t count, std::byte* out) const;
  /// out[i * out_stride + n] = x[i] · W[columns.begin + n]ᵀ (+ bias). Any number of rows.
  void multiply(const PackedMatrix& matrix, Columns columns, std::span<const void* const> x,
                float* out, std::size_t out_stride) const;

  /// As `multiply`, by tiles (tile_rows.hpp) and with scratch of scratch_bytes(matrix.cols).
  static void multiply_tiles(const TileKernel& kernel, const PackedMatrix& matrix, Columns columns,
                             const void* tiles, std::size_t rows, float* out,
                             std::size_t out_stride, void* scratch);
  /// 64-byte aligned.
  [[nodiscard]] static std::size_t scratch_bytes(std::size_t k);

  void activate(const TzActivation& job) const { kernels_->activation.run(&job); }

  /// A guess at the time that `rows` rows times `columns` outputs of the matrix take on one thread.
  [[nodiscard]] double microseconds(const PackedMatrix& matrix, std::size_t rows,
                                    std::size_t columns) const;

 private:
  [[nodiscard]] bool is_fast(tensor::WeightType type) const;

  const KernelSet* kernels_;
  compute::Profile profile_;
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
