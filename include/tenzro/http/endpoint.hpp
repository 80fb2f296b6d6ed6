#pragma once
/// \file
/// Endpoint: where a peer says its HTTP server is, as `http://host:port` or `https://host:port`.
///
/// Rules
///  - Exactly that form: `host` is a name, an IPv4 literal, or an IPv6 literal in brackets; `port`
///  is
///    1..65535. No user, path, query or slash at the end. Why so strict: the text comes from a
///    peer's record, and whatever else a URL may say is read by no two parsers alike.
///  - Which hosts may be called is not decided here.
/// Thread: any; a value.
#include <cstdint>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"

namespace tenzro::http {

struct Endpoint {
  bool is_tls = false;
  /// Without brackets.
  std::string host;
  std::uint16_t port = 0;

  [[nodiscard]] static Result<Endpoint> parse(std::string_view text);

  /// What parse reads.
  [[nodiscard]] std::string text() const;
};

}  // namespace tenzro::http
