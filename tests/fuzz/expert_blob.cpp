// Expert blobs: whatever is accepted has one width and one depth, and is written so that it reads
// the same.
#include "tenzro/wire/expert_blob.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenzro/base/assert.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto expert = tenzro::wire::parse_expert_blob(std::as_bytes(std::span(data, size)));
  if (!expert) {
    TENZRO_ASSERT(!expert.error().message().empty());
    return 0;
  }
  const tenzro::compute::ExpertView& view = expert->view;
  TENZRO_ASSERT(view.d_model() != 0);
  TENZRO_ASSERT(view.d_ff() != 0);
  const std::vector<std::byte> made = tenzro::wire::make_expert_blob(view);
  const auto again = tenzro::wire::parse_expert_blob(made);
  TENZRO_ASSERT(again.has_value());
  TENZRO_ASSERT(tenzro::wire::make_expert_blob(again->view) == made);
  return 0;
}
