// Any bytes as a safetensors file, and any bytes as a header before a few tensor bytes: both are
// read or refused, and what is read obeys the rules of the format and survives a rewrite.
// Input: u16 little-endian count of tensor bytes, then the JSON header.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace {

using tenzro::tensor::SafetensorsHeader;

void check_layout(const SafetensorsHeader& header, std::uint64_t data_begin,
                  std::uint64_t file_size) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : header.tensors) {
    TENZRO_ASSERT(tensor.begin >= data_begin);
    TENZRO_ASSERT(tensor.begin <= tensor.end);
    TENZRO_ASSERT(tensor.end <= file_size);
    bytes += tensor.bytes();
  }
  TENZRO_ASSERT(bytes == file_size - data_begin);
}

void check_rewrite(const SafetensorsHeader& header) {
  std::vector<std::byte> data;
  std::vector<tenzro::tensor::TensorToWrite> tensors;
  for (const auto& [name, tensor] : header.tensors) {
    if (tensor.bytes() > data.size()) data.resize(tensor.bytes());
  }
  for (const auto& [name, tensor] : header.tensors) {
    tensors.push_back({name, tensor.dtype, tensor.shape, std::span(data).first(tensor.bytes())});
  }
  const auto again = tenzro::tensor::parse_safetensors(
      tenzro::tensor::write_safetensors(tensors, header.metadata));
  TENZRO_ASSERT(again.has_value());
  TENZRO_ASSERT(again->metadata == header.metadata);
  TENZRO_ASSERT(again->tensors.size() == header.tensors.size());
  for (const auto& [name, tensor] : header.tensors) {
    const auto* copy = again->find(name);
    TENZRO_ASSERT(copy != nullptr);
    TENZRO_ASSERT(copy->dtype == tensor.dtype);
    TENZRO_ASSERT(copy->shape == tensor.shape);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  if (const auto whole = tenzro::tensor::parse_safetensors(input)) {
    check_layout(*whole, 8 + tenzro::load_u64_le(data), size);
  }
  if (size < 2) return 0;
  const std::span<const std::byte> json = input.subspan(2);
  const std::uint64_t file_size = 8 + json.size() + tenzro::load_u16_le(data);
  if (const auto header = tenzro::tensor::parse_safetensors_header(json, file_size)) {
    check_layout(*header, 8 + json.size(), file_size);
    check_rewrite(*header);
  } else {
    TENZRO_ASSERT(tenzro::is_valid_utf8(header.error().message()));
  }
  return 0;
}
