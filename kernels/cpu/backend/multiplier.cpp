#include "kernels/cpu/backend/multiplier.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tenzro/base/assert.hpp"

namespace tenzro::kernels {
namespace {

/// Outputs whose panels stay in the L2 cache while all rows pass over them.
constexpr std::size_t kColumnStep = 64;

/// Multiply-adds a microsecond on one core, roughly; only the size of slices depends on it.
double speed(Isa isa, bool quantized) {
  switch (isa) {
    case Isa::scalar:
      return 400.0;
    case Isa::avx2:
      return quantized ? 40'000.0 : 20'000.0;
    case Isa::avx512:
      return quantized ? 60'000.0 : 40'000.0;
    default:
      return quantized ? 120'000.0 : 40'000.0;
  }
}

constexpr double kTileSpeed = 500'000.0;           // multiply-adds a microsecond, also roughly
constexpr double kBytesPerMicrosecond = 25'000.0;  // weights that come from memory
constexpr double kSliceMin = 20.0;                 // microseconds
constexpr double kSliceMax = 800.0;
constexpr std::size_t kSlicesPerThread = 3;

}  // namespace

std::size_t row_bytes(RowFormat format, std::size_t k) {
  switch (format) {
    case RowFormat::f32:
      return k * sizeof(float);
    case RowFormat::q8_0:
      return k / kBlock * sizeof(TzQ8Block);
    case RowFormat::bf16:
      return (k + 1) / 2 * 2 * sizeof(std::uint16_t);
  }
  TENZRO_ASSERT(false);
  return 0;
}

bool Multiplier::is_fast(tensor::WeightType type) const {
  return profile_ == compute::Profile::fast && kernels_->fast_bf16 &&
         kernels_->fast_bf16->type == type;
}

Path Multiplier::path_for(tensor::WeightType type, std::size_t rows) const {
  const TileKernel* tiles = nullptr;
  if (rows >= kTileRowsMin) {
    if (profile_ == compute::Profile::fast) tiles = kernels_->tiles_of(type, profile_);
    if (tiles == nullptr) tiles = kernels_->tiles_of(type, compute::Profile::exact);
  }
  if (tiles == nullptr) return {.tiles = nullptr, .format = format_for(type)};
  const bool is_exact = tiles->profile == compute::Profile::exact;
  return {.tiles = tiles, .format = is_exact ? RowFormat::q8_0 : RowFormat::bf16};
}

RowFormat Multiplier::format_for(tensor::WeightType type) const {
  if (tensor::is_quantized(type)) return RowFormat::q8_0;
  return is_fast(type) ? RowFormat::bf16 : RowFormat::f32;
}

void Multiplier::convert(RowFormat format, const float* x, std::size_t count,
                         std::byte* out) const {
  switch (format) {
    case RowFormat::f32:
      std::memcpy(out, x, count * sizeof(float));
      return;
    case RowFormat::q8_0:
      TENZRO_ASSERT(count % kBlock == 0);
      kernels_->quantize.run(x, count / kBlock, static_cast<TzQ8Block*>(static_cast<void*>(out)));
      return;
    case RowFormat::bf16:
      kernels_->fast_bf16->narrow(x, count, static_cast<std::uint16_t*>(static_cast<void*>(out)));
      return;
  }
}

void Multiplier::multiply(const PackedMatrix& matrix, Columns columns,
                          std::span<const void* const> x, float* out,
                          std::size_t out_stride) const {
  TENZRO_ASSERT(columns.begin % kPanelOutputs == 0);
  TENZRO_ASSERT(columns.begin + columns.count <= matrix.rows);
  const TzMatmulFn run =
      is_fast(matrix.type) ? kernels_->fast_bf16->run : kernels_->matmul_of(matrix.type).run;
  const std::size_t step = x.size() <= kRowTile ? columns.count : kColumnStep;
  for (std::size_t done = 0; done < columns.count; done += step) {
    const std::size_t column = columns.begin + done;
    for (std::size_t row = 0; row < x.size(); row += kRowTile) {
      const TzMatmul job{
          .weights = matrix.panels.data() + column / kPanelOutputs * matrix.panel_bytes,
          .panel_bytes = matrix.panel_bytes,
          .k = matrix.cols,
          .x = x.data() + row,
          .rows = std::min(kRowTile, x.size() - row),
          .out = out + row * out_stride + done,
          .out_stride = out_stride,
          .cols = std::min(step, columns.count - done),
          .bias = matrix.bias.empty() ? nullptr : matrix.bias.data() + column};
      run(&job);
    }
  }
}

void Multiplier::multiply_tiles(const TileKernel& kernel, const PackedMatrix& matrix,
                                Columns columns, const void* tiles, std::size_t rows, float* out,
                                std::size_t out_stride, void* scratch) {
  TENZRO_ASSERT(columns.begin % kPanelOutputs == 0);
  TENZRO_ASSERT(columns.begin + columns.count <= matrix.rows);
  if (columns.count == 0) return;
  const TzTiles job{
      .weights = matrix.panels.data() + columns.begin / kPanelOutputs * matrix.panel_bytes,
      .panel_bytes = matrix.panel_bytes,
      .k = matrix.cols,
      .x = tiles,
      .rows = rows,
      .out = out,
      .out_stride = out_stride,
      .cols = columns.count,
      .bias = matrix.bias.empty() ? nullptr : matrix.bias.data() + columns.begin,
      .scratch = scratch};
  kernel.run(&job);
}

std::size_t Multiplier::scratch_bytes(std::size_t k) {
  return (k + kBlock - 1) / kBlock * TZ_TILES_SCRATCH;
}

double Multiplier::microseconds(const PackedMatrix& matrix, std::size_t rows,
                                std::size_t columns) const {
  const double share = static_cast<double>(columns) / static_cast<double>(matrix.rows);
  const double products =
      static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(matrix.cols);
  const TileKernel* tiles = path_for(matrix.type, rows).tiles;
  const double a_microsecond =
      tiles != nullptr ? kTileSpeed : speed(kernels_->isa, tensor::is_quantized(matrix.type));
  return std::max(products / a_microsecond,
                  static_cast<double>(matrix.panels.size()) * share / kBytesPerMicrosecond);
}

double slice_microseconds(double total, std::size_t threads) {
  if (threads == 1) return kSliceMax;
  return std::clamp(total / static_cast<double>(threads * kSlicesPerThread), kSliceMin, kSliceMax);
}

std::size_t slice_count(double total, double slice, std::size_t count_max) {
  return static_cast<std::size_t>(
      std::clamp(std::ceil(total / slice), 1.0, static_cast<double>(count_max)));
}

Columns slice_of(std::size_t total, std::size_t step, std::size_t count, std::size_t index) {
  const std::size_t steps = (total + step - 1) / step;
  const std::size_t begin = std::min(steps * index / count * step, total);
  const std::size_t end = std::min(steps * (index + 1) / count * step, total);
  return {.begin = begin, .count = end - begin};
}

}  // namespace tenzro::kernels
