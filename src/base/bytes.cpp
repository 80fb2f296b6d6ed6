#include "tenzro/base/bytes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tenzro {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase58Digits =
    "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

static_assert(std::endian::native == std::endian::little, "loads and stores assume little-endian");

template <typename T>
T load(const void* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// Bytes of the UTF-8 sequence at the front of `text`, or 0 where it is not well formed
/// (overlong, surrogate, beyond U+10FFFF, cut short). Table 3-7 of the Unicode standard.
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

}  // namespace

std::string to_hex(std::span<const std::uint8_t> bytes) {
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const std::uint8_t b : bytes) {
    hex.push_back(kHexDigits[b >> 4U]);
    hex.push_back(kHexDigits[b & 15U]);
  }
  return hex;
}

std::optional<Hash32> hash_from_hex(std::string_view hex) {
  Hash32 hash{};
  if (hex.size() != hash.size() * 2) return std::nullopt;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    hash[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return hash;
}

std::string to_base58(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint8_t> digits;  // base 58, least significant first
  for (const std::uint8_t byte : bytes) {
    std::uint32_t carry = byte;
    for (std::uint8_t& digit : digits) {
      carry += static_cast<std::uint32_t>(digit) << 8U;
      digit = static_cast<std::uint8_t>(carry % 58);
      carry /= 58;
    }
    for (; carry > 0; carry /= 58) digits.push_back(static_cast<std::uint8_t>(carry % 58));
  }
  const auto zeros = std::find_if(bytes.begin(), bytes.end(), [](auto b) { return b != 0; });
  std::string text(static_cast<std::size_t>(zeros - bytes.begin()), '1');
  for (auto it = digits.rbegin(); it != digits.rend(); ++it) text.push_back(kBase58Digits[*it]);
  return text;
}

void append_u32_le(std::vector<std::uint8_t>& out, std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<std::uint8_t>(value >> shift));
  }
}

void append_text(std::vector<std::uint8_t>& out, std::string_view text) {
  out.insert(out.end(), text.begin(), text.end());
}

std::uint16_t load_u16_le(const void* from) {
  return load<std::uint16_t>(from);
}

std::uint32_t load_u32_le(const void* from) {
  return load<std::uint32_t>(from);
}

std::uint64_t load_u64_le(const void* from) {
  return load<std::uint64_t>(from);
}

float load_f32_le(const void* from) {
  return load<float>(from);
}

std::string echo(std::string_view text) {
  std::string out;
  std::size_t taken = 0;
  while (taken < text.size() && out.size() < kEchoBytesMax) {
    const std::string_view rest = text.substr(taken);
    const std::size_t length = utf8_sequence(rest);
    const auto byte = static_cast<std::uint8_t>(rest[0]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out.push_back(kHexDigits[byte >> 4U]);
      out.push_back(kHexDigits[byte & 15U]);
      taken += 1;
    } else {
      out.append(rest.substr(0, length));
      taken += length;
    }
  }
  if (taken < text.size()) out += "…";
  return out;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace tenzro
