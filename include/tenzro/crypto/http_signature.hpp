#pragma once
/// \file
/// Requests between nodes over HTTP, signed: three headers that prove which endpoint sends this
/// body now.
///
/// X-Tenzro-Node: the endpoint id, 64 lower-case hex digits. X-Tenzro-Time: seconds since 1970,
/// decimal. X-Tenzro-Signature: base64 of the Ed25519 signature over "tenzro/http/1", method, path,
/// time (8 bytes, little-endian), SHA-256(body). Rules
///  - The time may differ from the receiver's by kHttpSkewSeconds either way.
///  - Anything not exactly of that form is refused. Which endpoints may do what is not decided
///  here.
/// A captured request can be sent again within that time: execution changes nothing, and its
/// receipt names who asked. Cost: one hash of the body and one signature. Pure: time comes in.
/// Thread: any.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/crypto/ed25519.hpp"

namespace tenzro::crypto {

inline constexpr std::int64_t kHttpSkewSeconds = 60;

/// What is signed besides the key. Views; the owner outlives the call.
struct HttpRequest {
  std::string_view method;
  std::string_view path;
  std::span<const std::byte> body;
};

/// Values of the three headers.
struct HttpSignature {
  std::string node;
  std::string time;
  std::string signature;
};

[[nodiscard]] HttpSignature sign_http(const KeyPair& key, const HttpRequest& request,
                                      std::int64_t unix_seconds);

/// Who signed. Error: forbidden.
[[nodiscard]] Result<EndpointId> verify_http(const HttpSignature& headers,
                                             const HttpRequest& request, std::int64_t unix_seconds);

}  // namespace tenzro::crypto
