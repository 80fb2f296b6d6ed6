// tenzro/blob/1: what is accepted as a request is its own encoding; a reply never gives bytes that
// were not asked for.
#include "tenzro/wire/blob_message.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenzro/base/assert.hpp"
#include "tenzro/wire/protocol.hpp"

using tenzro::BufferRef;
namespace wire = tenzro::wire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const BufferRef bytes = BufferRef::copy_of(std::as_bytes(std::span(data, size)));
  if (const auto request = wire::decode_blob_request(bytes)) {
    const BufferRef again = wire::encode_blob_request(*request);
    TENZRO_ASSERT(std::ranges::equal(again.bytes(), bytes.bytes()));
    TENZRO_ASSERT(request->length <= wire::kBlobRangeBytesMax);
  }
  for (const std::uint32_t length : {0U, 1U, 7U, 64U}) {
    const wire::BlobRequest asked{.offset = 3, .length = length};
    const auto reply = wire::decode_blob_reply(bytes, asked);
    if (!reply) continue;
    TENZRO_ASSERT(reply->error.size() <= wire::kBlobErrorTextBytesMax);
    TENZRO_ASSERT(reply->bytes.empty() || reply->bytes.size() == length);
    TENZRO_ASSERT(reply->bytes.empty() || reply->size_bytes >= asked.offset + length);
  }
  return 0;
}
