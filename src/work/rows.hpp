#pragma once
/// \file
/// Rows of f32 and their carrier, split over the executor where there are many.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"

namespace tenzro::work {

/// Rows at a time: enough that handing them out costs nothing beside the work.
inline constexpr std::size_t kRowsPerSlice = 16;

/// Index of the first row with a value that is not finite, or the number of rows.
[[nodiscard]] std::size_t find_non_finite_row(std::span<const float> values, std::size_t width);

/// The chosen rows of `input` as they travel: f32 or Q8_0 blocks. Shares the input's bytes where
/// nothing changes. Requires indices in range and, for Q8_0, a width that divides by 32.
[[nodiscard]] BufferRef make_carrier(const BufferRef& input, std::uint32_t width,
                                     std::span<const std::uint32_t> rows, bool is_q8,
                                     compute::Executor& executor);

/// f32 rows of a Q8_0 carrier. Error: invalid_params, naming the row.
[[nodiscard]] Result<BufferRef> open_q8_carrier(const BufferRef& carrier, std::size_t rows,
                                                std::uint32_t width, compute::Executor& executor);

}  // namespace tenzro::work
