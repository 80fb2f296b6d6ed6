// Base64: whatever is accepted is the one text of its bytes, and any bytes survive the round trip.
#include "tenzro/base/base64.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/assert.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(data)), size);
  // Exactly the promised room, so that a write beyond it is seen.
  std::vector<std::uint8_t> bytes(tenzro::base64_decoded_size(text));
  const auto decoded = tenzro::base64_decode(text, bytes.data());
  if (decoded) {
    TENZRO_ASSERT(*decoded == bytes.size());
    TENZRO_ASSERT(tenzro::base64_encode(bytes) == text);
  } else {
    TENZRO_ASSERT(decoded.error().position <= size);
  }

  const std::string encoded = tenzro::base64_encode({data, size});
  TENZRO_ASSERT(tenzro::base64_decoded_size(encoded) == size);
  std::vector<std::uint8_t> back(size);
  const auto again = tenzro::base64_decode(encoded, back.data());
  TENZRO_ASSERT(again == size);
  TENZRO_ASSERT(back == std::vector<std::uint8_t>(data, data + size));
  return 0;
}
