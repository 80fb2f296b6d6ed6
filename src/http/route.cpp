#include "route.hpp"

#include <algorithm>
#include <optional>

#include "tenzro/base/bytes.hpp"

namespace tenzro::http {
namespace {

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c + 0; };
    return lower(x) == lower(y);
  });
}

Refusal refuse(int status, std::string message) {
  return {.status = status, .message = std::move(message), .headers = {}};
}

std::optional<Refusal> check_framing(const RequestHead& head) {
  if (head.has_unknown_coding) {
    return refuse(501, "the only transfer coding known here is chunked");
  }
  if (head.is_http_1_0 && head.is_chunked) {
    return refuse(400, "HTTP/1.0 has no chunked bodies");
  }
  if (head.expectation == Expectation::other) {
    return refuse(417, "the only expectation known here is 100-continue");
  }
  if (!head.content_encoding.empty() && !equals_ignoring_case(head.content_encoding, "identity")) {
    return refuse(415, "encoded bodies are not accepted");
  }
  return std::nullopt;
}

/// A target's path; for the absolute form also its authority. Empty path: not a target of ours.
struct Target {
  std::string_view path;
  std::string_view authority;
};

Target split_target(std::string_view target) {
  std::string_view authority;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equals_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t slash = target.find('/');
    authority = target.substr(0, slash);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
    break;
  }
  return {.path = target.substr(0, target.find('?')), .authority = authority};
}

std::optional<Refusal> check_host(const RequestHead& head, const Target& target, const Site& site) {
  if (head.hosts == 0 && head.is_http_1_0) return std::nullopt;  // no browser speaks HTTP/1.0
  if (head.hosts != 1) return refuse(400, "exactly one Host header is needed");
  std::string_view named = head.host;
  if (!target.authority.empty()) named = target.authority;  // RFC 9112, 3.2.2
  const std::optional<std::string> name = host_name(named);
  if (!name || !host_name(head.host)) return refuse(400, "the Host header is malformed");
  if (!site.hosts.allows(*name, site.arrived_at)) {
    return refuse(403, "this Host is not served here; [rpc] allowed_hosts names those that are");
  }
  return std::nullopt;
}

/// The routes by path, methods aside.
std::optional<Route> route_of(std::string_view path) {
  constexpr std::string_view kBlobs = "/blob/";
  Route route;
  if (path == "/") return route;
  if (path == "/blob") {
    route.kind = RouteKind::put;
    return route;
  }
  if (path.substr(0, kBlobs.size()) == kBlobs) {
    const std::optional<Hash32> hash = hash_from_hex(path.substr(kBlobs.size()));
    if (!hash) return std::nullopt;
    route.kind = RouteKind::blob;
    route.hash = *hash;
    return route;
  }
  route.kind = RouteKind::page;
  if (path == "/metrics") {
    route.page = Page::metrics;
  } else if (path == "/healthz") {
    route.page = Page::healthz;
  } else if (path == "/readyz") {
    route.page = Page::readyz;
  } else {
    return std::nullopt;
  }
  return route;
}

std::optional<Refusal> check_method(const RequestHead& head, const Route& route) {
  std::string allow = "GET, HEAD";
  bool is_allowed = head.method == Method::get || head.method == Method::head;
  if (route.kind == RouteKind::rpc) {
    allow = "POST";
    is_allowed = head.method == Method::post;
  } else if (route.kind == RouteKind::put) {
    allow = "PUT";
    is_allowed = head.method == Method::put;
  }
  if (is_allowed) return std::nullopt;
  Refusal refusal = refuse(405, "this path takes " + allow);
  refusal.headers.push_back({.name = "Allow", .value = allow});
  return refusal;
}

/// The token of `Authorization: Bearer <token>`; empty where there is none.
std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  authorization.remove_prefix(kScheme.size());
  const std::size_t begin = authorization.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view{} : authorization.substr(begin);
}

Caller make_caller(const RequestHead& head, std::string_view path, const Site& site) {
  Caller caller;
  caller.is_loopback = site.is_loopback_peer;
  if (site.tokens.empty()) caller.scopes = kAllScopes;
  const std::string_view token = bearer_token(head.authorization);
  if (!token.empty() && !site.tokens.empty()) {
    if (const TokenTable::Entry* entry = site.tokens.find(token)) {
      caller.scopes = entry->scopes;
      caller.token_name = entry->name;
    }
  }
  if (!head.node.empty() || !head.node_signature.empty()) {
    caller.node = NodeSignature{.node = head.node,
                                .time = head.node_time,
                                .signature = head.node_signature,
                                .path = std::string(path)};
  }
  return caller;
}

/// Pages and uploads are refused here; JSON-RPC and blobs are judged by the node, which knows the
/// method and the signature.
std::optional<Refusal> check_scope(const Route& route) {
  const bool needs_read = route.kind == RouteKind::page && route.page == Page::metrics;
  const bool needs_admin = route.kind == RouteKind::put;
  const bool is_refused =
      (needs_read && !route.caller.scopes.read) || (needs_admin && !route.caller.scopes.admin);
  if (!is_refused) return std::nullopt;
  const std::string scope = needs_admin ? "admin" : "read";
  if (!route.caller.token_name.empty()) {
    return refuse(403, "this token lacks the " + scope + " scope");
  }
  Refusal refusal = refuse(401, "a bearer token with the " + scope + " scope is needed");
  refusal.headers.push_back({.name = "WWW-Authenticate", .value = "Bearer"});
  return refusal;
}

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return equals_ignoring_case(type, "application/json");
}

}  // namespace

std::variant<Route, Refusal> choose_route(const RequestHead& head, const Site& site) {
  if (auto refusal = check_framing(head)) return *std::move(refusal);
  const Target target = split_target(head.target);
  if (auto refusal = check_host(head, target, site)) return *std::move(refusal);
  std::optional<Route> route = route_of(target.path);
  if (!route) return refuse(404, "no such path: JSON-RPC is POST /");
  if (auto refusal = check_method(head, *route)) return *std::move(refusal);
  if (head.authorizations > 1) return refuse(400, "more than one Authorization header");
  route->is_head = head.method == Method::head;
  route->caller = make_caller(head, target.path, site);
  if (auto refusal = check_scope(*route)) return *std::move(refusal);
  if (route->kind == RouteKind::rpc && !is_json(head.content_type)) {
    return refuse(415, "Content-Type must be application/json");
  }
  return *std::move(route);
}

}  // namespace tenzro::http
