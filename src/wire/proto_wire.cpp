#include "proto_wire.hpp"

#include <algorithm>

#include "tenzro/base/bytes.hpp"

namespace tenzro::wire {
namespace {

constexpr std::uint32_t kFixed64 = 1;
constexpr std::uint32_t kFixed32 = 5;
constexpr std::uint64_t kFieldNumberMax = (1ULL << 29U) - 1;
constexpr std::size_t kVarintBytesMax = 10;

/// Takes a varint off the front.
std::optional<std::uint64_t> take_varint(std::span<const std::uint8_t>& rest) {
  if (!rest.empty() && rest[0] < 0x80U) {  // most are of one byte
    const std::uint64_t only = rest[0];
    rest = rest.subspan(1);
    return only;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < rest.size() && i < kVarintBytesMax; ++i) {
    const std::uint64_t digit = rest[i] & 0x7FU;
    if (i == kVarintBytesMax - 1 && digit > 1) return std::nullopt;  // beyond 64 bits
    value |= digit << (7 * i);
    if ((rest[i] & 0x80U) == 0) {
      rest = rest.subspan(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

std::size_t varint_bytes(std::uint64_t value) {
  std::size_t bytes = 1;
  for (; value >= 0x80U; value >>= 7U) ++bytes;
  return bytes;
}

}  // namespace

std::optional<ProtoField> ProtoReader::fail() {
  failed_ = true;
  return std::nullopt;
}

std::optional<ProtoField> ProtoReader::next() {
  if (failed_ || rest_.empty()) return std::nullopt;
  const auto tag = take_varint(rest_);
  if (!tag || *tag >> 3U == 0 || *tag >> 3U > kFieldNumberMax) return fail();
  ProtoField field{.number = static_cast<std::uint32_t>(*tag >> 3U),
                   .type = static_cast<std::uint32_t>(*tag & 7U)};
  if (field.type == kProtoVarint) {
    const auto value = take_varint(rest_);
    if (!value) return fail();
    field.varint = *value;
    return field;
  }
  std::uint64_t length = 0;
  if (field.type == kProtoDelimited) {
    const auto given = take_varint(rest_);
    if (!given) return fail();
    length = *given;
  } else if (field.type == kFixed64 || field.type == kFixed32) {
    length = field.type == kFixed64 ? 8 : 4;
  } else {
    return fail();
  }
  if (length > rest_.size()) return fail();
  field.bytes = rest_.first(static_cast<std::size_t>(length));
  rest_ = rest_.subspan(static_cast<std::size_t>(length));
  return field;
}

std::optional<std::vector<std::uint32_t>> read_packed(std::span<const std::uint8_t> packed,
                                                      std::size_t max) {
  const auto count = static_cast<std::size_t>(std::count_if(
      packed.begin(), packed.end(), [](std::uint8_t byte) { return (byte & 0x80U) == 0; }));
  if (count > max) return std::nullopt;
  if (count == packed.size()) return std::vector<std::uint32_t>(packed.begin(), packed.end());
  std::vector<std::uint32_t> values;
  values.reserve(count);
  while (!packed.empty()) {
    const auto value = take_varint(packed);
    if (!value || *value > UINT32_MAX) return std::nullopt;
    values.push_back(static_cast<std::uint32_t>(*value));
  }
  return values;
}

void ProtoWriter::put(std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) out_.push_back(static_cast<std::uint8_t>(value | 0x80U));
  out_.push_back(static_cast<std::uint8_t>(value));
}

void ProtoWriter::varint(std::uint32_t number, std::uint64_t value) {
  if (value == 0) return;
  put(std::uint64_t{number} << 3U);
  put(value);
}

void ProtoWriter::bytes(std::uint32_t number, std::span<const std::uint8_t> value) {
  put((std::uint64_t{number} << 3U) | kProtoDelimited);
  put(value.size());
  out_.insert(out_.end(), value.begin(), value.end());
}

void ProtoWriter::text(std::uint32_t number, std::string_view value) {
  bytes(number, as_u8(value));
}

void ProtoWriter::packed(std::uint32_t number, std::span<const std::uint32_t> values) {
  if (values.empty()) return;
  std::size_t length = 0;
  for (const std::uint32_t value : values) length += varint_bytes(value);
  put((std::uint64_t{number} << 3U) | kProtoDelimited);
  put(length);
  for (const std::uint32_t value : values) put(value);
}

}  // namespace tenzro::wire
