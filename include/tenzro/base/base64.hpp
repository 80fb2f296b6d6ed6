#pragma once
/// \file
/// Standard base64 (RFC 4648 section 4), padded and strict.
///
/// Rules
///  - Alphabet A-Z a-z 0-9 + /, padding demanded, length a multiple of 4, no white space.
///  - The unused low bits of the last digit must be zero. Why: one text for each byte string, so
///    that a hash of the text and a hash of the bytes say the same.
///  - The bulk of the work is done by a pair of kernels, which a caller may replace by faster ones
///    (kernels/cpu); head, tail, padding and errors are handled here, once. A kernel therefore
///    changes speed, never a result.
/// Cost: one pass. Pure, allocation-free except where a std::string is returned. Thread: any.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"

namespace tenzro {

/// Bulk kernels. Each works on a prefix of its input and returns how much of it was consumed,
/// which may be nothing; the caller does the rest.
struct Base64Kernels {
  /// Consumes a multiple of 3 of the `n` bytes and writes 4 characters for every 3.
  /// `out` has room for n / 3 * 4 characters; all of it may be overwritten.
  std::size_t (*encode)(const std::uint8_t* in, std::size_t n, char* out);
  /// Consumes a multiple of 4 of the `n` characters and writes 3 bytes for every 4. Never consumes
  /// a group of 4 that holds a character outside the alphabet; '=' is outside.
  /// `out` has room for n / 4 * 3 bytes; all of it may be overwritten.
  std::size_t (*decode)(const char* in, std::size_t n, std::uint8_t* out);
};

/// The portable pair: tables, one group at a time; consumes all that can be.
[[nodiscard]] const Base64Kernels& scalar_base64_kernels();

/// Characters that `n` bytes become. Requires n <= SIZE_MAX / 2.
[[nodiscard]] constexpr std::size_t base64_encoded_size(std::size_t n) {
  return (n / 3 + (n % 3 != 0 ? 1 : 0)) * 4;
}

/// Bytes that `text` becomes if it is valid: exact for valid text, and always enough room for
/// `base64_decode`.
[[nodiscard]] constexpr std::size_t base64_decoded_size(std::string_view text) {
  const std::size_t room = text.size() / 4 * 3;
  if (text.size() % 4 != 0 || text.empty() || text.back() != '=') return room;
  return room - (text[text.size() - 2] == '=' ? 2U : 1U);
}

/// Writes base64_encoded_size(bytes.size()) characters to `out` and returns their number.
std::size_t base64_encode(std::span<const std::uint8_t> bytes, char* out,
                          const Base64Kernels& kernels = scalar_base64_kernels());
[[nodiscard]] std::string base64_encode(std::span<const std::uint8_t> bytes,
                                        const Base64Kernels& kernels = scalar_base64_kernels());

/// Why a text is not base64.
struct Base64Fault {
  /// Index of the first character that cannot stand where it stands; text.size() where characters
  /// are missing at the end.
  std::size_t position = 0;
  friend bool operator==(const Base64Fault&, const Base64Fault&) = default;
};

/// Decodes into `out`, which has room for base64_decoded_size(text) bytes, and returns how many
/// were written. On a fault the contents of that room are unspecified.
[[nodiscard]] tl::expected<std::size_t, Base64Fault> base64_decode(
    std::string_view text, std::uint8_t* out,
    const Base64Kernels& kernels = scalar_base64_kernels());

}  // namespace tenzro
