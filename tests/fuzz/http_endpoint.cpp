// Goal: what a peer calls its HTTP endpoint is read or refused, and what is read is exactly the
// text.
#include <cstdint>
#include <string_view>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/http/endpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenzro;
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(data)), size);
  const auto endpoint = http::Endpoint::parse(text);
  if (endpoint) TENZRO_ASSERT(endpoint->text() == text);
  return 0;
}
