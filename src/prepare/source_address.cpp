#include "source_address.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "tenzro/base/bytes.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";
constexpr std::size_t kUrlBytesMax = 8192;
constexpr std::size_t kFileNameBytesMax = 255;

struct Url {
  bool is_tls = false;
  std::string host;  ///< lower case, with brackets where it is IPv6
  std::uint16_t port = 0;
  std::string_view rest;  ///< from the path on
};

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

bool is_host(std::string_view host) {
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!is_bracketed)
    return !host.empty() && std::all_of(host.begin(), host.end(), is_host_character);
  host = host.substr(1, host.size() - 2);
  return std::all_of(host.begin(), host.end(), is_ipv6_character);
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
  if (authority.find('@') != std::string_view::npos) return bad_url(text, "names a user");
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

/// Four numbers from 0 to 255, the first of them 127.
bool is_loopback_ipv4(std::string_view host) {
  for (int i = 0; i < 4; ++i) {
    const std::size_t dot = host.find('.');
    if ((dot == std::string_view::npos) != (i == 3)) return false;
    const std::string_view digits = host.substr(0, dot);
    std::uint8_t number = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return false;
    if (i == 0 && number != 127) return false;
    if (i < 3) host.remove_prefix(dot + 1);
  }
  return true;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "[::1]" || is_loopback_ipv4(host);
}

Status check(std::string_view text, const Url& url, PlainHttp plain_http) {
  if (url.is_tls || plain_http == PlainHttp::anywhere || is_loopback(url.host)) return {};
  return bad_url(text,
                 "is http, which anybody on the way can change: use https, or set [prepare] "
                 "plain_http");
}

/// Everything but what a path may hold as it is.
std::string percent_encoded(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~";
  std::string text;
  for (const char c : name) {
    const bool is_plain = is_host_character(lower(c)) || kPlain.find(c) != std::string_view::npos;
    if (is_plain) {
      text += c;
      continue;
    }
    const auto byte = static_cast<std::uint8_t>(c);
    text += '%';
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0xFU];
  }
  return text;
}

/// Nothing where a percent sign encodes nothing.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    std::uint8_t byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || read.ptr != digits.data() + digits.size()) return std::nullopt;
    name += static_cast<char>(byte);
    i += 2;
  }
  return name;
}

bool names_a_file(std::string_view root) {
  return root.ends_with(".safetensors") || root.ends_with(".gguf");
}

}  // namespace

Result<std::string> origin_of(std::string_view url) {
  const auto parsed = parse_url(url);
  if (!parsed) return fail(parsed.error());
  return std::string(parsed->is_tls ? kHttps : kHttp) + parsed->host + ":" +
         std::to_string(parsed->port);
}

Status check_url(std::string_view url, PlainHttp plain_http) {
  const auto parsed = parse_url(url);
  if (!parsed) return fail(parsed.error());
  return check(url, *parsed, plain_http);
}

Status check_redirect(std::string_view from, std::string_view to, PlainHttp plain_http) {
  const auto source = parse_url(from);
  if (!source) return fail(source.error());
  const auto target = parse_url(to);
  if (!target) return fail(target.error());
  if (source->is_tls && !target->is_tls) return bad_url(to, "leads from https to http");
  return check(to, *target, plain_http);
}

Status check_file_name(std::string_view file) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  const bool is_base_name = !file.empty() && file.size() <= kFileNameBytesMax && file != "." &&
                            file != ".." && file.find_first_of("/\\") == std::string_view::npos &&
                            std::none_of(file.begin(), file.end(), is_control);
  if (is_base_name) return {};
  return fail(ErrorCode::runtime, "",
              "'" + echo(file) + "' is not the name of a file of the checkpoint's folder");
}

Result<SourceAddress> SourceAddress::parse(const std::string& source, PlainHttp plain_http) {
  constexpr std::string_view kFile = "file://";
  const auto refuse = [](const std::string& why) {
    return fail(ErrorCode::invalid_params, "source", why);
  };
  SourceAddress address;
  address.root = source.starts_with(kFile) ? source.substr(kFile.size()) : source;
  address.is_remote = address.root.find("://") != std::string::npos;
  if (address.root.empty()) return refuse("names no folder");
  if (address.is_remote) {
    if (source.starts_with(kFile)) return refuse("is two addresses in one");
    const auto url = parse_url(source);
    if (!url) return refuse(url.error().message());
    if (Status allowed = check(source, *url, plain_http); !allowed)
      return refuse(allowed.error().message());
    if (url->rest.find('?') != std::string_view::npos) return refuse("has a query");
    while (address.root.ends_with('/')) address.root.pop_back();
  }
  const std::size_t slash = address.root.find_last_of('/');
  // Of a URL without a path the last slash stands before its host.
  const bool is_host = address.is_remote && slash <= address.root.find("://") + 2;
  if (is_host || !names_a_file(address.root)) return address;
  const std::string name =
      slash == std::string::npos ? address.root : address.root.substr(slash + 1);
  const auto decoded = address.is_remote ? percent_decoded(name) : name;
  if (!decoded || !check_file_name(*decoded)) return refuse("names no file");
  address.single_file = *decoded;
  address.root =
      slash == std::string::npos ? "." : address.root.substr(0, std::max<std::size_t>(slash, 1));
  return address;
}

std::string SourceAddress::url_of(std::string_view file) const {
  return root + "/" + percent_encoded(file);
}

}  // namespace tenzro::prepare
