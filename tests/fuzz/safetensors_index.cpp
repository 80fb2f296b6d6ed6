// Any bytes as model.safetensors.index.json: refused with a sentence, or tensors of the wanted
// layer with plain file names.
#include <cstddef>
#include <cstdint>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/prepare/build_blob.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto scanned = tenzro::prepare::scan_index(
      {tenzro::BufferRef::copy_of(std::as_bytes(std::span(data, size))), {"model.layers.0.", "a"}});
  if (!scanned) {
    TENZRO_ASSERT(tenzro::is_valid_utf8(scanned.error().message()));
    return 0;
  }
  for (const std::string& tensor : scanned->shards->tensors()) {
    const std::string& file = *scanned->shards->file_of(tensor);
    TENZRO_ASSERT(tensor.starts_with("model.layers.0.") || tensor.starts_with("a"));
    TENZRO_ASSERT(!file.empty());
    TENZRO_ASSERT(file.find('/') == std::string::npos);
    TENZRO_ASSERT(file != "..");
  }
  return 0;
}
