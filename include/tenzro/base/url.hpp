#pragma once
/// \file
/// Url: the parts of an http or https URL, read strictly.
///
/// Printable ASCII without spaces, quotes or backslashes, without user or fragment. Why so strict:
/// no two parsers agree on the rest, and who gets a token, and who is this machine, is decided by
/// the host. Pure.
#include <cstdint>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"

namespace tenzro {

struct Url {
  bool is_tls = false;
  std::string host;  ///< lower case, with brackets where it is IPv6
  std::uint16_t port = 0;
  std::string_view rest;  ///< from the path on; of the text that was read

  /// "https://host:port", the port always there.
  [[nodiscard]] std::string origin() const;
};

/// Error: invalid_params, with why.
[[nodiscard]] Result<Url> parse_url(std::string_view text);
/// `localhost`, 127.0.0.0/8, ::1: this machine, whatever a resolver says.
[[nodiscard]] bool is_loopback_host(std::string_view host);

}  // namespace tenzro
