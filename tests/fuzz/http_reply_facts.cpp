// Goal: what a server says of a range and of its limits is read or passed over, and a range that is
// read is one.
#include <cstdint>
#include <string_view>

#include "tenzro/base/assert.hpp"

#include "reply_facts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenzro;
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(data)), size);
  if (const auto range = http::parse_content_range(text)) {
    if (range->first) TENZRO_ASSERT(*range->first <= range->last);
    if (range->first && range->file_bytes) TENZRO_ASSERT(range->last < *range->file_bytes);
  }
  if (const auto wait = http::parse_rate_limit(text)) TENZRO_ASSERT(*wait <= 86'400);
  return 0;
}
