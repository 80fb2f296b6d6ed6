// Any bytes as a config.json: refused with a sentence, or numbers within their limits that agree
// with each other, whose layers can be asked for.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

#include "checkpoint.hpp"
#include "layer_plan.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(bytes.data())),
                              bytes.size());
  const auto checkpoint = tenzro::prepare::parse_checkpoint_config(text);
  if (!checkpoint) {
    TENZRO_ASSERT(tenzro::is_valid_utf8(checkpoint.error().message()));
    return 0;
  }
  TENZRO_ASSERT(checkpoint->family != nullptr);
  TENZRO_ASSERT(checkpoint->hidden >= 1);
  TENZRO_ASSERT(checkpoint->hidden <= tenzro::prepare::kWidthMax);
  TENZRO_ASSERT(checkpoint->shared_ffn <= tenzro::prepare::kWidthMax);
  TENZRO_ASSERT(checkpoint->router.top_k.value_or(0) >= 1);
  TENZRO_ASSERT(*checkpoint->router.top_k <= checkpoint->num_experts);
  TENZRO_ASSERT(checkpoint->num_experts % checkpoint->router.n_group == 0);
  for (const tenzro::LayerIndex layer : {0U, 3U, checkpoint->layers}) {
    if (!checkpoint->check_layer(layer)) continue;
    TENZRO_ASSERT(!scan_prefixes(*checkpoint, layer).empty());
    // A checkpoint without tensors: every plan is refused by a name.
    const tenzro::prepare::FindTensor none = [](const std::string&) { return nullptr; };
    TENZRO_ASSERT(!plan_gate(*checkpoint, layer, none).has_value());
    TENZRO_ASSERT(!plan_expert(*checkpoint, layer, 0, none).has_value());
  }
  return 0;
}
