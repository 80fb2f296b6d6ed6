// Gossip messages: what is accepted is read back the same from its own bytes.
#include "tenzro/wire/gossip_message.hpp"

#include <cstddef>
#include <cstdint>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenzro;
  const auto message = wire::decode_gossip(std::span<const std::uint8_t>(data, size));
  if (!message) return 0;
  const BufferRef again = wire::encode_gossip(*message);
  TENZRO_ASSERT(wire::decode_gossip(as_u8(again.bytes())) == *message);
  return 0;
}
