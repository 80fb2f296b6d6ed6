// Provider records and beats: what is accepted is read back the same from its own bytes.
#include "tenzro/wire/provider_record.hpp"

#include <cstddef>
#include <cstdint>

#include "tenzro/base/assert.hpp"
#include "tenzro/wire/beat.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenzro::wire;
  const std::span<const std::uint8_t> bytes(data, size);
  if (const auto record = decode_record(bytes)) {
    TENZRO_ASSERT(record->holdings() <= kRecordHoldingsMax);
    const auto again = encode_record(*record);
    // Several encodings mean the same; ours may be refused only for its size.
    if (again) TENZRO_ASSERT(decode_record(*again) == *record);
  }
  if (const auto beat = decode_beat(bytes)) TENZRO_ASSERT(decode_beat(encode_beat(*beat)) == *beat);
  return 0;
}
