#include "tls.hpp"

#include <algorithm>
#include <utility>

namespace tenzro::net {

std::optional<EndpointId> key_of_spki(std::span<const std::uint8_t> der) {
  if (der.size() != kSpkiBytes) return std::nullopt;
  if (!std::equal(kSpkiPrefix.begin(), kSpkiPrefix.end(), der.begin())) return std::nullopt;
  EndpointId key{};
  std::copy(der.begin() + kSpkiPrefix.size(), der.end(), key.begin());
  return key;
}

TlsSession::TlsSession(ngtcp2_conn* connection, std::optional<EndpointId> expected)
    : connection_(connection), expected_(expected) {
  reference_.user_data = this;
  reference_.get_conn = [](ngtcp2_crypto_conn_ref* reference) {
    return from(reference)->connection_;
  };
}

bool TlsSession::accept_spki(std::span<const std::uint8_t> der) {
  const std::optional<EndpointId> key = key_of_spki(der);
  if (!key) return false;
  peer_ = key;
  is_wrong_peer_ = expected_ && *expected_ != *key;
  return !is_wrong_peer_;
}

}  // namespace tenzro::net
