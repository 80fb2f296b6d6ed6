#include "tenzro/tensor/block.hpp"

#include <array>

#include "tenzro/base/assert.hpp"

namespace tenzro::tensor {
namespace {

struct Traits {
  WeightType type;
  std::string_view name;
  std::size_t elements;
  std::size_t bytes;
};

constexpr std::array<Traits, 6> kTraits{{
    {WeightType::f32, "f32", 1, 4},
    {WeightType::f16, "f16", 1, 2},
    {WeightType::bf16, "bf16", 1, 2},
    {WeightType::q8_0, "q8_0", 32, 34},
    {WeightType::q4_k, "q4_k", 256, 144},
    {WeightType::q6_k, "q6_k", 256, 210},
}};

const Traits& traits_of(WeightType type) {
  std::size_t index = 0;
  while (index < kTraits.size() && kTraits[index].type != type) ++index;
  TENZRO_ASSERT(index < kTraits.size());
  return kTraits[index];
}

}  // namespace

std::string_view name_of(WeightType type) {
  return traits_of(type).name;
}

std::optional<WeightType> weight_type_from_name(std::string_view name) {
  if (name == "q4_k_m" || name == "q4_k_s") return WeightType::q4_k;
  for (const Traits& traits : kTraits) {
    if (traits.name == name) return traits.type;
  }
  return std::nullopt;
}

bool is_quantized(WeightType type) {
  return traits_of(type).elements > 1;
}

std::size_t block_elements(WeightType type) {
  return traits_of(type).elements;
}

std::size_t block_bytes(WeightType type) {
  return traits_of(type).bytes;
}

std::size_t row_bytes(WeightType type, std::size_t cols) {
  const Traits& traits = traits_of(type);
  TENZRO_ASSERT(cols % traits.elements == 0);
  return cols / traits.elements * traits.bytes;
}

double bits_per_weight(WeightType type) {
  const Traits& traits = traits_of(type);
  return 8.0 * static_cast<double>(traits.bytes) / static_cast<double>(traits.elements);
}

}  // namespace tenzro::tensor
