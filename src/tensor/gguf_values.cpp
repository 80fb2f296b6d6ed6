#include "gguf_values.hpp"

#include <bit>
#include <type_traits>

#include "tenzro/base/assert.hpp"

#include "gguf_cursor.hpp"

namespace tenzro::tensor {

GgufValue gguf_scalar(std::uint32_t kind, std::span<const std::byte> bytes) {
  std::uint64_t raw = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    raw |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  switch (kind) {
    case GgufCursor::boolean:
      return raw != 0;
    case GgufCursor::f32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw)));
    case GgufCursor::f64:
      return std::bit_cast<double>(raw);
    case GgufCursor::i8:
      return std::int64_t{static_cast<std::int8_t>(raw)};
    case GgufCursor::i16:
      return std::int64_t{static_cast<std::int16_t>(raw)};
    case GgufCursor::i32:
      return std::int64_t{static_cast<std::int32_t>(raw)};
    case GgufCursor::i64:
      return static_cast<std::int64_t>(raw);
    default:
      return raw;
  }
}

GgufValue gguf_numbers(std::uint32_t kind, std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes_of_kind(kind);
  TENZRO_ASSERT(size > 0);
  if (bytes.size() > kGgufArrayMax * size) return {};
  const auto widened = [](const auto& value) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      return static_cast<double>(value);
    } else {
      return 0.0;
    }
  };
  std::vector<double> values;
  values.reserve(bytes.size() / size);
  for (; !bytes.empty(); bytes = bytes.subspan(size))
    values.push_back(std::visit(widened, gguf_scalar(kind, bytes.first(size))));
  return values;
}

}  // namespace tenzro::tensor
