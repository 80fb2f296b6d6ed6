#include "host_list.hpp"

#include <algorithm>

#include <asio/ip/address.hpp>

#include "tenzro/base/bytes.hpp"

namespace tenzro::http {
namespace {

constexpr std::size_t kHostBytesMax = 255;

bool is_port(std::string_view text) {
  return text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

std::optional<std::string> bracketed_name(std::string_view header) {
  const std::size_t close = header.find(']');
  if (close == std::string_view::npos) return std::nullopt;
  const std::string_view port = header.substr(close + 1);
  if (!port.empty() && (port.front() != ':' || !is_port(port.substr(1)))) return std::nullopt;
  std::error_code error;
  const auto address = asio::ip::make_address_v6(std::string(header.substr(1, close - 1)), error);
  if (error) return std::nullopt;
  return address.to_string();
}

}  // namespace

std::optional<std::string> host_name(std::string_view header) {
  if (header.empty() || header.size() > kHostBytesMax) return std::nullopt;
  if (header.front() == '[') return bracketed_name(header);
  const std::size_t colon = header.find(':');
  if (colon != std::string_view::npos && !is_port(header.substr(colon + 1))) return std::nullopt;
  std::string name(header.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), lower);
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_character)) {
    return std::nullopt;
  }
  return name;
}

Result<HostList> HostList::make(std::string_view listen_host,
                                const std::vector<std::string>& allowed) {
  HostList list;
  list.names_ = {"localhost", "127.0.0.1", "::1", std::string(listen_host)};
  list.is_wildcard_ = listen_host == "0.0.0.0" || listen_host == "::";
  for (const std::string& entry : allowed) {
    // A bare IPv6 literal is clear enough in a configuration file.
    const bool is_bare_v6 = std::count(entry.begin(), entry.end(), ':') > 1 && entry[0] != '[';
    const std::optional<std::string> name = host_name(is_bare_v6 ? "[" + entry + "]" : entry);
    if (!name) {
      return fail(ErrorCode::invalid_params, "allowed_hosts",
                  "'" + echo(entry) + "' is not a host name or address");
    }
    list.names_.insert(*name);
  }
  return list;
}

bool HostList::allows(std::string_view name, std::string_view arrived_at) const {
  if (names_.find(name) != names_.end()) return true;
  return is_wildcard_ && name == arrived_at;
}

}  // namespace tenzro::http
