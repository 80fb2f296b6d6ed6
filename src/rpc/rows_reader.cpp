#include "rows_reader.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/block.hpp"

namespace tenzro::rpc {
namespace {

constexpr std::string_view kQ8 = "hidden_q8";

/// Position of the first significant digit before the decimal point, with the exponent added: above
/// 0 where the number is 1 or more. Only its sign is of use, so a long exponent may saturate.
std::int64_t decimal_magnitude(std::string_view token) {
  const std::size_t e = token.find_first_of("eE");
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    std::string_view digits = token.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    constexpr std::int64_t kFar = std::int64_t{1} << 40U;  // beyond any length of digits
    if (result.ec != std::errc()) exponent = digits.starts_with('-') ? -kFar : kFar;
  }
  const std::string_view mantissa = token.substr(0, e);
  const std::size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return std::numeric_limits<std::int64_t>::min();
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const auto distance = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  constexpr std::int64_t kExponentMax = std::int64_t{1} << 40U;
  return distance + std::clamp(exponent, -kExponentMax, kExponentMax);
}

/// Index of the first value that is not finite, or the count. The common answer is found without a
/// branch a value.
std::size_t first_non_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponentBits = 0x7F800000U;
  const auto is_odd = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & kExponentBits) == kExponentBits;
  };
  std::uint32_t any = 0;
  for (const float value : values) any |= static_cast<std::uint32_t>(is_odd(value));
  if (any == 0) return values.size();
  std::size_t index = 0;
  while (!is_odd(values[index])) ++index;
  return index;
}

std::string row_text(std::size_t row, std::string_view what) {
  return "row " + std::to_string(row) + " holds " + std::string(what);
}

std::optional<NamedFloats> read_number_array(ParamReader& params) {
  const JsonNode* node = params.find("hidden");
  if (node->kind == JsonKind::array && node->count == 0) return NamedFloats{"hidden", {}};
  if (node->kind != JsonKind::numbers) {
    params.refuse("hidden", "must be an array of numbers");
    return std::nullopt;
  }
  NamedFloats values{"hidden", BufferRef::allocate(node->count * sizeof(float))};
  float* out = values.data.mutable_as<float>().data();
  NumberTokens tokens(*node);
  while (const std::optional<std::string_view> token = tokens.next()) *out++ = to_f32(*token);
  return values;
}

}  // namespace

float to_f32(std::string_view token) {
  float value = 0;
  const auto result = std::from_chars(token.data(), token.data() + token.size(), value);
  if (result.ec == std::errc()) return value;
  // Out of range says neither which way nor, in every library, what is nearest.
  const float magnitude =
      decimal_magnitude(token) > 0 ? std::numeric_limits<float>::infinity() : 0.0F;
  return token.starts_with('-') ? -magnitude : magnitude;
}

std::optional<NamedFloats> read_floats(ParamReader& params, std::string_view name) {
  std::optional<BufferRef> bytes = params.optional_tensor(name);
  if (!bytes) return std::nullopt;
  if (bytes->size() % sizeof(float) != 0) {
    params.refuse(name, "f32 payload length is not a multiple of 4 bytes");
    return std::nullopt;
  }
  return NamedFloats{name, *std::move(bytes)};
}

std::optional<NamedFloats> read_hidden(ParamReader& params) {
  const bool has_numbers = params.find("hidden") != nullptr;
  if (has_numbers && params.find("hidden_states") != nullptr) {
    params.refuse("hidden", "cannot be given together with hidden_states");
    return std::nullopt;
  }
  return has_numbers ? read_number_array(params) : read_floats(params, "hidden_states");
}

Rows to_rows(ParamReader& params, const NamedFloats& values, std::uint32_t width) {
  const std::span<const float> floats = values.data.as<float>();
  if (floats.size() % width != 0) {
    params.refuse(values.name, "length " + std::to_string(floats.size()) +
                                   " is not a multiple of d_model " + std::to_string(width));
    return {};
  }
  const std::size_t odd = first_non_finite(floats);
  if (odd != floats.size()) {
    params.refuse(values.name, row_text(odd / width, "a value that is not finite"));
    return {};
  }
  return {static_cast<std::uint32_t>(floats.size() / width), width, values.data};
}

Rows read_q8_rows(ParamReader& params, std::uint32_t tokens, std::uint32_t width,
                  BufferRef& carrier) {
  constexpr auto kType = tensor::WeightType::q8_0;
  std::optional<BufferRef> blocks = params.optional_tensor(kQ8);
  if (!blocks || params.failed()) return {};
  if (width % tensor::block_elements(kType) != 0) {
    params.refuse(kQ8, "d_model " + std::to_string(width) + " is not a multiple of 32");
    return {};
  }
  const std::size_t row_bytes = tensor::row_bytes(kType, width);
  const std::optional<std::uint64_t> expected = checked_mul(tokens, row_bytes);
  if (!expected || blocks->size() != *expected) {
    params.refuse(kQ8, "length " + std::to_string(blocks->size()) + " does not match " +
                           std::to_string(tokens) + " tokens of " + std::to_string(row_bytes) +
                           " bytes");
    return {};
  }
  Rows rows{tokens, width, BufferRef::allocate(std::size_t{tokens} * width * sizeof(float))};
  const std::span<float> out = rows.data.mutable_as<float>();
  for (std::size_t row = 0; row < tokens; ++row) {
    const std::span<const std::byte> block = blocks->bytes().subspan(row * row_bytes, row_bytes);
    if (const auto defect = tensor::find_defect(kType, block)) {
      const bool is_scale = *defect == tensor::RowDefect::non_finite;
      params.refuse(kQ8, row_text(row, is_scale ? "a scale that is not finite" : "the value -128"));
      return {};
    }
    tensor::decode_row(kType, block, out.subspan(row * width, width));
  }
  carrier = *std::move(blocks);
  return rows;
}

}  // namespace tenzro::rpc
