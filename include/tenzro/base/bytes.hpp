#pragma once
/// \file
/// Text and byte encodings every layer needs: hex, base58, little-endian integers, safe echoing.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/ids.hpp"

namespace tenzro {

/// Lower-case hex.
[[nodiscard]] std::string to_hex(std::span<const std::uint8_t> bytes);
/// 64 lower-case hex digits, nothing else.
[[nodiscard]] std::optional<Hash32> hash_from_hex(std::string_view hex);
/// Bitcoin alphabet, leading zero bytes as '1'.
[[nodiscard]] std::string to_base58(std::span<const std::uint8_t> bytes);

[[nodiscard]] inline std::span<const std::uint8_t> as_u8(std::span<const std::byte> bytes) {
  return {static_cast<const std::uint8_t*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

[[nodiscard]] inline std::span<const std::uint8_t> as_u8(std::string_view text) {
  return {static_cast<const std::uint8_t*>(static_cast<const void*>(text.data())), text.size()};
}

void append_u32_le(std::vector<std::uint8_t>& out, std::uint32_t value);
void append_text(std::vector<std::uint8_t>& out, std::string_view text);

/// Unaligned little-endian loads. Require enough bytes.
[[nodiscard]] std::uint16_t load_u16_le(const void* from);
[[nodiscard]] std::uint32_t load_u32_le(const void* from);
[[nodiscard]] std::uint64_t load_u64_le(const void* from);
[[nodiscard]] float load_f32_le(const void* from);

/// Client text for an error message: at most `kEchoBytesMax` bytes, control characters and broken
/// UTF-8 escaped as \xNN, an ellipsis where it was cut.
inline constexpr std::size_t kEchoBytesMax = 200;
[[nodiscard]] std::string echo(std::string_view text);

[[nodiscard]] bool is_valid_utf8(std::string_view text);

/// a * b, or nothing where it would not fit 64 bits.
[[nodiscard]] std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b);
[[nodiscard]] std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b);

}  // namespace tenzro
