#include "tenzro/http/endpoint.hpp"

#include <algorithm>
#include <charconv>

#include "tenzro/base/bytes.hpp"

namespace tenzro::http {
namespace {

constexpr std::size_t kHostBytesMax = 253;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_';
}

bool is_ipv6_character(char c) {
  return is_hex_digit(c) || c == ':' || c == '.';
}

/// Takes `host:` or `[host]:` off the front of `text`; empty where there is none.
std::string_view take_host(std::string_view& text) {
  const bool is_bracketed = text.starts_with('[');
  const std::size_t end = text.find(is_bracketed ? "]:" : ":");
  if (end == std::string_view::npos) return {};
  const std::string_view host = text.substr(is_bracketed ? 1 : 0, end - (is_bracketed ? 1 : 0));
  text.remove_prefix(end + (is_bracketed ? 2 : 1));
  const auto is_legal = is_bracketed ? is_ipv6_character : is_name_character;
  const bool is_ipv6 = host.find(':') != std::string_view::npos;
  const bool is_host = is_ipv6 == is_bracketed && host.size() <= kHostBytesMax &&
                       std::all_of(host.begin(), host.end(), is_legal);
  return is_host ? host : std::string_view();
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const auto refused = [text] {
    return fail(ErrorCode::invalid_params, "HTTP endpoint",
                "'" + echo(text) + "' is not http://host:port or https://host:port");
  };
  Endpoint endpoint;
  std::string_view rest = text;
  endpoint.is_tls = rest.starts_with("https://");
  if (!endpoint.is_tls && !rest.starts_with("http://")) return refused();
  rest.remove_prefix(endpoint.is_tls ? 8 : 7);
  endpoint.host = take_host(rest);
  if (endpoint.host.empty()) return refused();
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), endpoint.port);
  const bool is_port = read.ec == std::errc() && read.ptr == rest.data() + rest.size() &&
                       endpoint.port != 0 && rest.front() != '0';
  if (!is_port) return refused();
  return endpoint;
}

std::string Endpoint::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return std::string(is_tls ? "https://" : "http://") + (is_ipv6 ? "[" + host + "]" : host) + ":" +
         std::to_string(port);
}

}  // namespace tenzro::http
