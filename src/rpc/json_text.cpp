#include "json_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "tenzro/base/bytes.hpp"

namespace tenzro::rpc {
namespace {

constexpr std::size_t kBlock = 64;
/// Most strings are names and end within this many bytes; only then are blocks worth their start.
constexpr std::size_t kShort = 16;

/// Neither a quote, nor a backslash, nor a control character, nor part of a multi-byte sequence.
constexpr bool is_plain(char c) {
  const auto byte = static_cast<std::uint8_t>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

/// Written so that the compiler turns it into vector code: fixed trip count, no branch.
bool is_plain_block(const char* text) {
  std::uint8_t odd = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    odd = static_cast<std::uint8_t>(
        odd | static_cast<std::uint8_t>(byte < 0x20) | static_cast<std::uint8_t>(byte > 0x7F) |
        static_cast<std::uint8_t>(byte == '"') | static_cast<std::uint8_t>(byte == '\\'));
  }
  return odd == 0;
}

/// Index of the first character from `from` that is not plain, or the size.
std::size_t skip_plain(std::string_view text, std::size_t from) {
  const std::size_t near = std::min(text.size(), from + kShort);
  while (from < near && is_plain(text[from])) ++from;
  if (from < near) return from;
  while (text.size() - from >= kBlock && is_plain_block(text.data() + from)) from += kBlock;
  while (from < text.size() && is_plain(text[from])) ++from;
  return from;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t skip_digits(std::string_view text, std::size_t from) {
  while (from < text.size() && is_digit(text[from])) ++from;
  return from;
}

/// The four hex digits at the front of `text`.
std::optional<std::uint32_t> hex4(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  const char* const end = text.data() + 4;
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto push = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0U | (code >> 6U));
    push(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    push(0xE0U | (code >> 12U));
    push(0x80U | ((code >> 6U) & 0x3FU));
    push(0x80U | (code & 0x3FU));
  } else {
    push(0xF0U | (code >> 18U));
    push(0x80U | ((code >> 12U) & 0x3FU));
    push(0x80U | ((code >> 6U) & 0x3FU));
    push(0x80U | (code & 0x3FU));
  }
}

/// Appends the code point of `rest`, which begins after "\u", and returns the characters taken; 0
/// where it is none.
std::size_t unescape_unicode(std::string_view rest, std::string& out) {
  const std::optional<std::uint32_t> first = hex4(rest);
  if (!first || (*first >= 0xDC00 && *first <= 0xDFFF)) return 0;
  if (*first < 0xD800 || *first > 0xDBFF) {
    append_utf8(out, *first);
    return 4;
  }
  if (rest.substr(4, 2) != "\\u") return 0;
  const std::optional<std::uint32_t> second = hex4(rest.substr(6));
  if (!second || *second < 0xDC00 || *second > 0xDFFF) return 0;
  append_utf8(out, 0x10000U + ((*first - 0xD800U) << 10U) + (*second - 0xDC00U));
  return 10;
}

/// What a one-letter escape stands for.
std::optional<char> unescape_letter(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/':
      return c;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return std::nullopt;
  }
}

}  // namespace

StringToken scan_string(std::string_view text) {
  StringToken token;
  bool is_ascii = true;
  std::size_t at = 1;
  while (true) {
    at = skip_plain(text, at);
    if (at >= text.size()) {
      token.fault = "a string that does not end";
      return token;
    }
    const auto byte = static_cast<std::uint8_t>(text[at]);
    if (byte == '"') break;
    if (byte < 0x20) {
      token.fault = "a control character in a string";
      return token;
    }
    if (byte == '\\') {
      token.has_escapes = true;
      at += 2;
    } else {
      is_ascii = false;
      at += 1;
    }
    if (at > text.size()) at = text.size();
  }
  if (!is_ascii && !is_valid_utf8(text.substr(0, at))) {
    token.fault = "invalid UTF-8";
    return token;
  }
  token.size = at + 1;
  return token;
}

std::optional<std::string> unescape(std::string_view between_quotes) {
  std::string out;
  out.reserve(between_quotes.size());
  std::string_view rest = between_quotes;
  while (true) {
    const std::size_t plain = rest.find('\\');
    out.append(rest.substr(0, plain));
    if (plain == std::string_view::npos) return out;
    rest.remove_prefix(plain + 1);
    if (rest.empty()) return std::nullopt;
    const char kind = rest.front();
    rest.remove_prefix(1);
    if (kind == 'u') {
      const std::size_t taken = unescape_unicode(rest, out);
      if (taken == 0) return std::nullopt;
      rest.remove_prefix(taken);
    } else if (const std::optional<char> letter = unescape_letter(kind)) {
      out.push_back(*letter);
    } else {
      return std::nullopt;
    }
  }
}

std::size_t scan_number(std::string_view text) {
  std::size_t at = 0;
  if (at < text.size() && text[at] == '-') ++at;
  const std::size_t digits = at;
  at = skip_digits(text, at);
  if (at == digits) return 0;
  if (text[digits] == '0') at = digits + 1;  // no leading zeros: the next digit is not ours
  if (at < text.size() && text[at] == '.') {
    const std::size_t end = skip_digits(text, at + 1);
    if (end == at + 1) return 0;
    at = end;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t exponent = at + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    const std::size_t end = skip_digits(text, exponent);
    if (end == exponent) return 0;
    at = end;
  }
  return at;
}

}  // namespace tenzro::rpc
