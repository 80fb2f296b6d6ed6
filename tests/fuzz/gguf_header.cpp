// Any bytes as a GGUF file, whole or as the beginning of a longer one: read, refused, or asked to
// go on; what is read lies inside the file, in blocks that fit its shape, without overlap.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/gguf.hpp"

namespace {

using tenzro::tensor::GgufHeader;
using tenzro::tensor::GgufTensor;

void check_tensor(const GgufTensor& tensor, std::uint64_t file_size) {
  TENZRO_ASSERT(tensor.begin < tensor.end);
  TENZRO_ASSERT(tensor.end <= file_size);
  TENZRO_ASSERT(!tensor.shape.empty());
  TENZRO_ASSERT(tensor.shape.size() <= tenzro::tensor::kGgufDimensionsMax);
  std::uint64_t blocks = tensor.shape.back() / block_elements(tensor.type);
  TENZRO_ASSERT(tensor.shape.back() % block_elements(tensor.type) == 0);
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) blocks *= tensor.shape[i];
  TENZRO_ASSERT(blocks * block_bytes(tensor.type) == tensor.end - tensor.begin);
}

void check_header(const GgufHeader& header, std::uint64_t file_size) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, tensor] : header.tensors) {
    TENZRO_ASSERT(tenzro::is_valid_utf8(name));
    check_tensor(tensor, file_size);
    ranges.emplace_back(tensor.begin, tensor.end);
  }
  std::size_t numbers = 0;
  for (const auto& [key, value] : header.metadata) {
    if (const auto* array = std::get_if<std::vector<double>>(&value)) numbers += array->size();
  }
  TENZRO_ASSERT(numbers <= tenzro::tensor::kGgufNumbersMax);
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    TENZRO_ASSERT(ranges[i - 1].second <= ranges[i].first);
  }
}

void read(std::span<const std::byte> prefix, std::uint64_t file_size) {
  const auto result = tenzro::tensor::read_gguf_header(prefix, file_size);
  if (!result) {
    TENZRO_ASSERT(tenzro::is_valid_utf8(result.error().message()));
    return;
  }
  if (const auto* header = std::get_if<GgufHeader>(&*result)) {
    check_header(*header, file_size);
    return;
  }
  const auto wanted = std::get<std::uint64_t>(*result);
  TENZRO_ASSERT(wanted > prefix.size());
  TENZRO_ASSERT(wanted <= file_size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  read(input, size);
  read(input, size + (1ULL << 20U));
  read(input, 1ULL << 50U);
  return 0;
}
