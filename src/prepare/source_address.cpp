#include "source_address.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/url.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::size_t kFileNameBytesMax = 255;

tl::unexpected<Error> bad_url(std::string_view url, std::string_view why) {
  return fail(ErrorCode::invalid_params, "", "URL '" + echo(url) + "' " + std::string(why));
}

/// As names of files and hosts may hold it.
bool is_plain_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

Status check(std::string_view text, const Url& url, PlainHttp plain_http) {
  if (url.is_tls || plain_http == PlainHttp::anywhere || is_loopback_host(url.host)) return {};
  return bad_url(text,
                 "is http, which anybody on the way can change: use https, or set [prepare] "
                 "plain_http");
}

/// Everything but what a path may hold as it is.
std::string percent_encoded(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (const char c : name) {
    if (is_plain_character(c)) {
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
  return parsed->origin();
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
  address.root = source;
  if (source.starts_with(kFile)) {
    // Of a file's URL the host is this machine, or left out.
    constexpr std::string_view kThisMachine = "localhost/";
    address.root = source.substr(kFile.size());
    if (address.root.starts_with(kThisMachine)) address.root.erase(0, kThisMachine.size() - 1);
    const bool has_host = !address.root.empty() && !address.root.starts_with('/') &&
                          address.root.find("://") == std::string::npos;
    if (has_host) return refuse("is a file of another machine: file:///folder");
  }
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

std::optional<SourceAddress> SourceAddress::at_commit(std::string_view commit) const {
  constexpr std::string_view kResolve = "/resolve/";
  const bool is_name = (commit.size() == 40 || commit.size() == 64) &&
                       commit.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (!is_remote || !is_name) return std::nullopt;
  // The repository's name stands between the host and the word.
  const std::size_t path = root.find('/', root.find("://") + 3);
  const std::size_t resolve =
      path == std::string::npos ? std::string::npos : root.find(kResolve, path + 1);
  if (resolve == std::string::npos) return std::nullopt;
  const std::size_t revision = resolve + kResolve.size();
  const std::size_t end = std::min(root.find('/', revision), root.size());
  if (end == revision) return std::nullopt;
  SourceAddress address = *this;
  address.root.replace(revision, end - revision, commit);
  return address;
}

std::string SourceAddress::url_of(std::string_view file) const {
  return root + "/" + percent_encoded(file);
}

}  // namespace tenzro::prepare
