#include "rows.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>

#include "tenzro/receipts/carrier.hpp"
#include "tenzro/tensor/block.hpp"

namespace tenzro::work {
namespace {

constexpr std::uint32_t kExponentMask = 0x7F800000U;

/// body(from, to) over all rows.
void for_slices(std::size_t rows, compute::Executor& executor,
                const std::function<void(std::size_t, std::size_t)>& body) {
  if (rows <= kRowsPerSlice) return body(0, rows);
  const std::size_t slices = (rows + kRowsPerSlice - 1) / kRowsPerSlice;
  executor.parallel_for(slices, [&](std::size_t slice) {
    body(slice * kRowsPerSlice, std::min(rows, (slice + 1) * kRowsPerSlice));
  });
}

/// 0, 1, 2, ... as many as the input has.
bool is_whole(std::span<const std::uint32_t> rows, std::size_t input_rows) {
  // Ascending without repeats and in range: the length says it.
  return rows.size() == input_rows;
}

void write_row(std::span<const float> row, bool is_q8, std::span<std::byte> place) {
  if (is_q8) {
    tensor::encode_row(tensor::WeightType::q8_0, row, place);
  } else {
    std::memcpy(place.data(), row.data(), place.size());
  }
}

}  // namespace

std::size_t find_non_finite_row(std::span<const float> values, std::size_t width) {
  const std::size_t rows = width == 0 ? 0 : values.size() / width;
  for (std::size_t r = 0; r < rows; ++r) {
    std::uint32_t bad = 0;  // no branch inside: the loop vectorises
    for (const float value : values.subspan(r * width, width)) {
      bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kExponentMask) ==
                                        kExponentMask);
    }
    if (bad != 0) return r;
  }
  return rows;
}

BufferRef make_carrier(const BufferRef& input, std::uint32_t width,
                       std::span<const std::uint32_t> rows, bool is_q8,
                       compute::Executor& executor) {
  const std::span<const float> in = input.as<float>();
  if (!is_q8 && is_whole(rows, in.size() / width)) return input;
  const std::size_t stride = is_q8 ? tensor::row_bytes(tensor::WeightType::q8_0, width)
                                   : std::size_t{width} * sizeof(float);
  BufferRef carrier = BufferRef::allocate(rows.size() * stride);
  const std::span<std::byte> out = carrier.mutable_bytes();
  for_slices(rows.size(), executor, [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      const std::span<const float> row = in.subspan(std::size_t{rows[i]} * width, width);
      write_row(row, is_q8, out.subspan(i * stride, stride));
    }
  });
  return carrier;
}

Result<BufferRef> open_q8_carrier(const BufferRef& carrier, std::size_t rows, std::uint32_t width,
                                  compute::Executor& executor) {
  const std::size_t stride = tensor::row_bytes(tensor::WeightType::q8_0, width);
  BufferRef opened = BufferRef::allocate(rows * width * sizeof(float));
  const std::span<float> out = opened.mutable_as<float>();
  const auto open = [&](std::size_t from, std::size_t to) {
    return receipts::decode_q8_rows(carrier.bytes().subspan(from * stride, (to - from) * stride),
                                    to - from, width,
                                    out.subspan(from * width, (to - from) * width));
  };
  std::atomic<bool> is_bad = false;
  for_slices(rows, executor, [&](std::size_t from, std::size_t to) {
    if (!open(from, to)) is_bad = true;
  });
  if (!is_bad) return opened;
  // Once more, in order: the refusal names the first bad row.
  const Status status = open(0, rows);
  return fail(status.error());
}

}  // namespace tenzro::work
