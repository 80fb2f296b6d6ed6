#include "tenzro/tensor/ggml_type.hpp"

#include <array>

#include "tenzro/base/assert.hpp"

#include "ggml_blocks.hpp"

namespace tenzro::tensor {
namespace {

struct Traits {
  GgmlType type;
  std::string_view name;
  std::size_t elements;
  std::size_t bytes;
  /// Null where the type is served as it is, or not read here.
  void (*decode)(const std::byte* block, float* out) = nullptr;
};

constexpr std::array kTraits{
    Traits{GgmlType::f32, "F32", 1, 4},
    Traits{GgmlType::f16, "F16", 1, 2},
    Traits{GgmlType::q4_0, "Q4_0", 32, 18, decode_q4_0},
    Traits{GgmlType::q4_1, "Q4_1", 32, 20, decode_q4_1},
    Traits{GgmlType::q5_0, "Q5_0", 32, 22, decode_q5_0},
    Traits{GgmlType::q5_1, "Q5_1", 32, 24, decode_q5_1},
    Traits{GgmlType::q8_0, "Q8_0", 32, 34},
    Traits{GgmlType::q8_1, "Q8_1", 32, 36},
    Traits{GgmlType::q2_k, "Q2_K", 256, 84, decode_q2_k},
    Traits{GgmlType::q3_k, "Q3_K", 256, 110, decode_q3_k},
    Traits{GgmlType::q4_k, "Q4_K", 256, 144},
    Traits{GgmlType::q5_k, "Q5_K", 256, 176, decode_q5_k},
    Traits{GgmlType::q6_k, "Q6_K", 256, 210},
    Traits{GgmlType::q8_k, "Q8_K", 256, 292},
    Traits{GgmlType::iq2_xxs, "IQ2_XXS", 256, 66},
    Traits{GgmlType::iq2_xs, "IQ2_XS", 256, 74},
    Traits{GgmlType::iq3_xxs, "IQ3_XXS", 256, 98},
    Traits{GgmlType::iq1_s, "IQ1_S", 256, 50},
    Traits{GgmlType::iq4_nl, "IQ4_NL", 32, 18, decode_iq4_nl},
    Traits{GgmlType::iq3_s, "IQ3_S", 256, 110},
    Traits{GgmlType::iq2_s, "IQ2_S", 256, 82},
    Traits{GgmlType::iq4_xs, "IQ4_XS", 256, 136, decode_iq4_xs},
    Traits{GgmlType::i8, "I8", 1, 1},
    Traits{GgmlType::i16, "I16", 1, 2},
    Traits{GgmlType::i32, "I32", 1, 4},
    Traits{GgmlType::i64, "I64", 1, 8},
    Traits{GgmlType::f64, "F64", 1, 8},
    Traits{GgmlType::iq1_m, "IQ1_M", 256, 56},
    Traits{GgmlType::bf16, "BF16", 1, 2},
    Traits{GgmlType::tq1_0, "TQ1_0", 256, 54, decode_tq1_0},
    Traits{GgmlType::tq2_0, "TQ2_0", 256, 66, decode_tq2_0},
    Traits{GgmlType::mxfp4, "MXFP4", 32, 17, decode_mxfp4},
    Traits{GgmlType::nvfp4, "NVFP4", 64, 36},
    Traits{GgmlType::q1_0, "Q1_0", 128, 18, decode_q1_0},
    Traits{GgmlType::q2_0, "Q2_0", 64, 18, decode_q2_0},
};

const Traits& traits_of(GgmlType type) {
  std::size_t index = 0;
  while (index < kTraits.size() && kTraits[index].type != type) ++index;
  TENZRO_ASSERT(index < kTraits.size());
  return kTraits[index];
}

}  // namespace

std::optional<GgmlType> ggml_type_from_number(std::uint32_t number) {
  for (const Traits& traits : kTraits) {
    if (static_cast<std::uint32_t>(traits.type) == number) return traits.type;
  }
  return std::nullopt;
}

std::string_view name_of(GgmlType type) {
  return traits_of(type).name;
}

std::size_t block_elements(GgmlType type) {
  return traits_of(type).elements;
}

std::size_t block_bytes(GgmlType type) {
  return traits_of(type).bytes;
}

std::optional<WeightType> weight_type_of(GgmlType type) {
  switch (type) {
    case GgmlType::f32:
    case GgmlType::f16:
    case GgmlType::bf16:
    case GgmlType::q8_0:
    case GgmlType::q4_k:
    case GgmlType::q6_k:
      return static_cast<WeightType>(type);  // both are numbered as the file format
    default:
      return std::nullopt;
  }
}

bool is_decodable(GgmlType type) {
  return weight_type_of(type).has_value() || traits_of(type).decode != nullptr;
}

void decode_row(GgmlType type, std::span<const std::byte> row, std::span<float> out) {
  if (const auto served = weight_type_of(type)) {
    decode_row(*served, row, out);
    return;
  }
  const Traits& traits = traits_of(type);
  TENZRO_ASSERT(traits.decode != nullptr);
  TENZRO_ASSERT(out.size() % traits.elements == 0);
  const std::size_t blocks = out.size() / traits.elements;
  TENZRO_ASSERT(row.size() == blocks * traits.bytes);
  for (std::size_t block = 0; block < blocks; ++block) {
    traits.decode(row.data() + block * traits.bytes, out.data() + block * traits.elements);
  }
}

}  // namespace tenzro::tensor
