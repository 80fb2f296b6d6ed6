#pragma once
/// \file
/// Route: what a request asks for, decided from its head alone.
///
/// `choose_route` holds the server's whole policy on heads, in this order: framing, Host, path,
/// method, credentials, content type. It looks at nothing but its arguments.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "tenzro/http/handler.hpp"

#include "host_list.hpp"
#include "refusal.hpp"
#include "request_head.hpp"

namespace tenzro::http {

enum class RouteKind : std::uint8_t { rpc, page, blob, put };

struct Route {
  RouteKind kind = RouteKind::rpc;
  Page page = Page::healthz;
  BlobHash hash{};
  /// HEAD: everything but the body.
  bool is_head = false;
  Caller caller;
};

/// What the server and this connection are, as far as a head is judged by them.
struct Site {
  const HostList& hosts;
  const TokenTable& tokens;
  /// Canonical text of the connection's own local address.
  std::string_view arrived_at;
  bool is_loopback_peer = false;
};

[[nodiscard]] std::variant<Route, Refusal> choose_route(const RequestHead& head, const Site& site);

}  // namespace tenzro::http
