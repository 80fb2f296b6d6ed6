#include "tenzro/tensor/row_encoder.hpp"

#include <algorithm>
#include <array>

#include "tenzro/base/assert.hpp"

namespace tenzro::tensor {

void RowEncoder::encode(WeightType type, DType dtype, std::span<const std::byte> row,
                        std::span<std::byte> out) const {
  // A multiple of every block, and small enough to stay in the first cache.
  constexpr std::size_t kChunk = 1024;
  const std::size_t elements = row.size() / bytes_of(dtype);
  TENZRO_ASSERT(out.size() == row_bytes(type, elements));
  std::array<float, kChunk> chunk{};
  for (std::size_t at = 0; at < elements; at += kChunk) {
    const auto values = std::span(chunk).first(std::min(kChunk, elements - at));
    convert_to_f32(dtype, row.subspan(at * bytes_of(dtype), values.size() * bytes_of(dtype)),
                   values);
    encode_row(type, values, out.subspan(row_bytes(type, at), row_bytes(type, values.size())));
  }
}

}  // namespace tenzro::tensor
