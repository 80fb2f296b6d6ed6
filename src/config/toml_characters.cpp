#include "toml_characters.hpp"

#include <algorithm>
#include <string>

namespace tenzro::config {
namespace {

bool is_ascii(char byte) {
  return static_cast<unsigned char>(byte) < 0x80;
}

/// Whether a string may begin after this character (blanks aside): elsewhere a quote is a mistake,
/// and what follows is no string to the parser.
bool can_precede_string(char last) {
  return std::string_view("\n\r=,[{.").find(last) != std::string_view::npos;
}

/// One past the end of the string that begins at `begin`; the size of the text where it does not
/// end, and the byte beyond ASCII where one follows a backslash.
std::size_t end_of_string(std::string_view toml, std::size_t begin) {
  const char quote = toml[begin];
  const bool is_long = toml.substr(begin, 3) == std::string(3, quote);
  const std::string mark(is_long ? 3 : 1, quote);
  for (std::size_t at = begin + mark.size(); at < toml.size(); ++at) {
    if (toml[at] == '\\' && quote == '"') {
      ++at;
      // What an escaped end of line leads to, over all blanks.
      const std::size_t next = is_long ? toml.find_first_not_of(" \t\r\n", at) : at;
      if (next < toml.size() && !is_ascii(toml[next])) return next;
    } else if (toml[at] == '\n' && !is_long) {
      return at;
    } else if (toml.substr(at, mark.size()) == mark) {
      at += mark.size();
      // Up to two more quotes are its last characters.
      while (is_long && at < toml.size() && toml[at] == quote) ++at;
      return at;
    }
  }
  return toml.size();
}

}  // namespace

std::optional<std::size_t> line_of_stray_character(std::string_view toml) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  char last = '\n';  // but blanks
  for (std::size_t at = toml.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
       at < toml.size();) {
    const char byte = toml[at];
    if (!is_ascii(byte)) {
      const std::string_view before = toml.substr(0, at);
      return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    }
    if (byte == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    const bool is_string = (byte == '"' || byte == '\'') && can_precede_string(last);
    at = is_string ? end_of_string(toml, at) : at + 1;
    if (byte != ' ' && byte != '\t') last = byte;
  }
  return std::nullopt;
}

}  // namespace tenzro::config
