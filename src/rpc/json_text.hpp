#pragma once
/// \file
/// The tokens of JSON text (RFC 8259): strings and numbers.
///
/// Cost: one pass; characters that need no attention are skipped 64 at a time, because most of a
/// large body is one base64 string. Pure.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tenzro::rpc {

/// A string token: `size` counts both quotes; 0 where it is broken, and then `fault` says how.
struct StringToken {
  std::size_t size = 0;
  bool has_escapes = false;
  /// What is wrong, without any of the text.
  std::string_view fault;
};

/// The string token at the front of `text`, which begins with a quote. Checks that it ends, has no
/// raw control characters and is valid UTF-8; escapes are only skipped.
[[nodiscard]] StringToken scan_string(std::string_view text);

/// Resolves the escapes between the quotes. Nothing where one is unknown or is half of a surrogate
/// pair.
[[nodiscard]] std::optional<std::string> unescape(std::string_view between_quotes);

/// Bytes of the number token at the front of `text`; 0 where there is none.
[[nodiscard]] std::size_t scan_number(std::string_view text);

}  // namespace tenzro::rpc
