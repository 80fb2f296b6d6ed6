// Requests of tenzro/exec/1: whatever is accepted is written so that it reads the same.
#include <cstdint>
#include <span>

#include "tenzro/base/assert.hpp"
#include "tenzro/wire/exec_message.hpp"

#include "support/random_expert.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenzro;
  const auto request =
      wire::decode_exec_request(BufferRef::copy_of(std::as_bytes(std::span(data, size))));
  if (!request) {
    TENZRO_ASSERT(!request.error().message().empty());
    return 0;
  }
  TENZRO_ASSERT(request->rows.size() ==
                wire::exec_carrier_bytes(request->tokens.size(), request->width, request->is_q8));
  const auto parts = wire::encode_exec_request(*request);
  TENZRO_ASSERT(parts.has_value());
  const auto again = wire::decode_exec_request(testing::joined(*parts));
  TENZRO_ASSERT(again.has_value());
  TENZRO_ASSERT(again->tokens == request->tokens);
  TENZRO_ASSERT(again->rows.text() == request->rows.text());
  return 0;
}
