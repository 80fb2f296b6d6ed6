#include "tenzro/base/url.hpp"

#include <algorithm>
#include <charconv>

#include "tenzro/base/bytes.hpp"

namespace tenzro {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";
constexpr std::size_t kUrlBytesMax = 8192;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_url_character(char c) {
  return c > ' ' && c < 0x7F && c != '"' && c != '\'' && c != '\\' && c != '<' && c != '>' &&
         c != '^' && c != '`' && c != '{' && c != '|' && c != '}';
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

bool is_ipv6_character(char c) {
  return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

tl::unexpected<Error> bad_url(std::string_view url, std::string_view why) {
  return fail(ErrorCode::invalid_params, "", "URL '" + echo(url) + "' " + std::string(why));
}

/// Four numbers from 0 to 255, as everybody writes them.
bool is_ipv4(std::string_view host) {
  for (int i = 0; i < 4; ++i) {
    const std::size_t dot = host.find('.');
    if ((dot == std::string_view::npos) != (i == 3)) return false;
    const std::string_view digits = host.substr(0, dot);
    std::uint8_t number = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return false;
    // Octal to some parsers.
    if (digits.size() > 1 && digits.front() == '0') return false;
    if (i < 3) host.remove_prefix(dot + 1);
  }
  return true;
}

/// Whether its last label is a number, by which some parsers know an address: then 127.1, 0x7f.1,
/// 2130706433 and 0127.0.0.1 are hosts to them, and not all take them for the same one.
bool ends_in_number(std::string_view host) {
  if (host.ends_with('.')) host.remove_suffix(1);
  std::string_view label = host.substr(host.rfind('.') + 1);
  const bool is_hex = label.starts_with("0x");
  if (is_hex) label.remove_prefix(2);
  const std::string_view digits = is_hex ? "0123456789abcdef" : "0123456789";
  return (is_hex || !label.empty()) && label.find_first_not_of(digits) == std::string_view::npos;
}

bool is_host(std::string_view host) {
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!is_bracketed) {
    return !host.empty() && std::all_of(host.begin(), host.end(), is_host_character) &&
           (!ends_in_number(host) || is_ipv4(host));
  }
  host = host.substr(1, host.size() - 2);
  return std::all_of(host.begin(), host.end(), is_ipv6_character);
}

}  // namespace

std::string Url::origin() const {
  return std::string(is_tls ? kHttps : kHttp) + host + ":" + std::to_string(port);
}

Result<Url> parse_url(std::string_view text) {
  Url url;
  if (text.size() > kUrlBytesMax) return bad_url(text, "is too long");
  if (!std::all_of(text.begin(), text.end(), is_url_character))
    return bad_url(text, "holds a character that must be percent-encoded");
  url.is_tls = text.starts_with(kHttps);
  if (!url.is_tls && !text.starts_with(kHttp)) return bad_url(text, "is not https:// or http://");
  std::string_view rest = text.substr(url.is_tls ? kHttps.size() : kHttp.size());
  const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  std::string_view authority = rest.substr(0, end);
  url.rest = rest.substr(end);
  if (authority.find('@') != std::string_view::npos) {
    // Not echoed: a password may stand beside it.
    return fail(ErrorCode::invalid_params, "", "the URL names a user");
  }
  if (url.rest.find('#') != std::string_view::npos) return bad_url(text, "has a fragment");
  url.port = url.is_tls ? 443 : 80;
  const std::size_t colon = authority.rfind(':');
  const bool has_port = colon != std::string_view::npos && authority.back() != ']';
  if (has_port) {
    const std::string_view digits = authority.substr(colon + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
    const bool is_port = read.ec == std::errc() && read.ptr == digits.data() + digits.size() &&
                         url.port != 0 && !digits.empty();
    if (!is_port) return bad_url(text, "has no port that is one");
    authority = authority.substr(0, colon);
  }
  url.host = std::string(authority);
  std::transform(url.host.begin(), url.host.end(), url.host.begin(), lower);
  if (!is_host(url.host)) return bad_url(text, "names no host");
  return url;
}

bool is_loopback_host(std::string_view host) {
  return host == "localhost" || host == "[::1]" || (host.starts_with("127.") && is_ipv4(host));
}

}  // namespace tenzro
