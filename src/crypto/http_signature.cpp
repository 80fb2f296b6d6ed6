#include "tenzro/crypto/http_signature.hpp"

#include <charconv>
#include <vector>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"

namespace tenzro::crypto {
namespace {

std::vector<std::uint8_t> message_of(const HttpRequest& request, std::int64_t unix_seconds) {
  std::vector<std::uint8_t> out;
  append_text(out, "tenzro/http/1");
  append_text(out, request.method);
  append_text(out, request.path);
  const auto time = static_cast<std::uint64_t>(unix_seconds);
  for (unsigned i = 0; i < 8; ++i) out.push_back(static_cast<std::uint8_t>(time >> (8 * i)));
  const Hash32 body = sha256(as_u8(request.body));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

tl::unexpected<Error> refused(std::string detail) {
  return fail(ErrorCode::forbidden, "node signature", std::move(detail));
}

/// Digits alone: one text for one time.
std::optional<std::int64_t> read_time(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  if (value < 0 || std::to_string(value) != text) return std::nullopt;
  return value;
}

}  // namespace

HttpSignature sign_http(const KeyPair& key, const HttpRequest& request, std::int64_t unix_seconds) {
  return {to_hex(key.public_key()), std::to_string(unix_seconds),
          base64_encode(key.sign(message_of(request, unix_seconds)))};
}

Result<EndpointId> verify_http(const HttpSignature& headers, const HttpRequest& request,
                               std::int64_t unix_seconds) {
  const auto node = hash_from_hex(headers.node);
  if (!node) return refused("X-Tenzro-Node must be 64 lower-case hex digits");
  const auto time = read_time(headers.time);
  if (!time) return refused("X-Tenzro-Time must be seconds since 1970");
  // Neither is negative: the difference fits.
  const std::int64_t skew = *time - unix_seconds;
  if (skew > kHttpSkewSeconds || skew < -kHttpSkewSeconds) {
    return refused("X-Tenzro-Time is " + std::to_string(skew) + " s away from this node's clock");
  }
  Signature signature{};
  if (base64_decoded_size(headers.signature) != signature.size() ||
      base64_decode(headers.signature, signature.data()) != signature.size()) {
    return refused("X-Tenzro-Signature must be base64 of 64 bytes");
  }
  if (!verify(*node, message_of(request, *time), signature)) {
    return refused("the signature is not the node's over this request");
  }
  return *node;
}

}  // namespace tenzro::crypto
