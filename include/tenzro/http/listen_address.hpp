#pragma once
/// \file
/// ListenAddress: where a server listens, as `A:P`.
///
/// Rules
///  - `A` is an IPv4 literal, an IPv6 literal in brackets, or `localhost` (which means 127.0.0.1).
///    Why no other name: a listener must not depend on a resolver.
///  - `P` is 0..65535; 0 lets the system choose.
/// Thread: any; a value.
#include <cstdint>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"

namespace tenzro::http {

struct ListenAddress {
  /// A numeric literal, without brackets.
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  [[nodiscard]] static Result<ListenAddress> parse(std::string_view text);

  /// Whether only this machine can reach it.
  [[nodiscard]] bool is_loopback() const;
  /// `127.0.0.1:8545`, `[::1]:8545`.
  [[nodiscard]] std::string text() const;
};

}  // namespace tenzro::http
