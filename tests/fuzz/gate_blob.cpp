// Gate blobs: whatever is accepted is consistent, and is written so that it reads the same.
#include "tenzro/wire/gate_blob.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenzro/base/assert.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto gate = tenzro::wire::parse_gate_blob(std::as_bytes(std::span(data, size)));
  if (!gate) {
    TENZRO_ASSERT(!gate.error().message().empty());
    return 0;
  }
  TENZRO_ASSERT(gate->num_experts % gate->spec.n_group == 0);
  TENZRO_ASSERT(gate->expert_width() != 0);
  for (const std::uint32_t id : gate->tid2eid) TENZRO_ASSERT(id < gate->num_experts);
  const std::vector<std::byte> made = tenzro::wire::make_gate_blob(*gate);
  const auto again = tenzro::wire::parse_gate_blob(made);
  TENZRO_ASSERT(again.has_value());
  TENZRO_ASSERT(tenzro::wire::make_gate_blob(*again) == made);
  return 0;
}
