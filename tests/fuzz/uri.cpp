// URIs of blobs: whatever is accepted names one hash, and its bare form is read back.
#include "tenzro/wire/uri.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tenzro/base/assert.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(data)), size);
  const auto uri = tenzro::wire::parse_blob_uri(text);
  if (!uri) {
    TENZRO_ASSERT(uri.error().code == tenzro::ErrorCode::invalid_params);
    return 0;
  }
  const auto bare = tenzro::wire::parse_blob_uri(tenzro::wire::format_blob_uri(uri->hash));
  TENZRO_ASSERT(bare.has_value());
  TENZRO_ASSERT(bare->hash == uri->hash);
  TENZRO_ASSERT(!bare->hint.has_value());
  return 0;
}
