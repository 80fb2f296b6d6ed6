#include "kernels/cpu/backend/cpu_row_encoder.hpp"

#include <algorithm>
#include <array>

#include "tenzro/base/assert.hpp"

namespace tenzro::kernels {
namespace {

std::uint8_t* as_u8(std::byte* bytes) {
  return static_cast<std::uint8_t*>(static_cast<void*>(bytes));
}

}  // namespace

TzEncodeFn CpuRowEncoder::find(tensor::DType source, tensor::WeightType type) const {
  const EncodeKernel* best = nullptr;
  for (const EncodeKernel& line : encode_kernels()) {
    const bool fits = line.source == source && line.type == type && line.isa <= isa_;
    if (fits && (best == nullptr || best->isa < line.isa)) best = &line;
  }
  return best == nullptr ? nullptr : best->run;
}

void CpuRowEncoder::encode(tensor::WeightType type, tensor::DType dtype,
                           std::span<const std::byte> row, std::span<std::byte> out) const {
  const std::size_t elements = row.size() / bytes_of(dtype);
  TENZRO_ASSERT(out.size() == tensor::row_bytes(type, elements));
  if (const TzEncodeFn run = find(dtype, type)) {
    return run(row.data(), elements / block_elements(type), as_u8(out.data()));
  }
  const TzEncodeFn from_f32 = find(tensor::DType::f32, type);
  if (from_f32 == nullptr) return RowEncoder::encode(type, dtype, row, out);
  // Widened a few blocks at a time, which stay in the first cache.
  constexpr std::size_t kChunk = 2048;
  std::array<float, kChunk> chunk;
  for (std::size_t at = 0; at < elements; at += kChunk) {
    const auto values = std::span(chunk).first(std::min(kChunk, elements - at));
    convert_to_f32(dtype, row.subspan(at * bytes_of(dtype), values.size() * bytes_of(dtype)),
                   values);
    from_f32(values.data(), values.size() / block_elements(type),
             as_u8(out.data() + tensor::row_bytes(type, at)));
  }
}

}  // namespace tenzro::kernels
