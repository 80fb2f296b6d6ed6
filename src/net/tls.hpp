#pragma once
/// \file
/// TLS 1.3 for QUIC with raw public keys (RFC 7250): the seam between this module and the TLS
/// library. One of tls_gnutls.cpp and tls_openssl.cpp is built.
///
/// Both sides show an Ed25519 key, which is their endpoint id; the handshake proves that they have
/// the secret half. A side that shows no key, another kind of key, or another one than expected
/// ends the handshake. There are no session tickets and no early data: every connection proves its
/// peer anew.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::net {

/// DER of a SubjectPublicKeyInfo that holds an Ed25519 key: this, then the 32 bytes.
inline constexpr std::array<std::uint8_t, 12> kSpkiPrefix = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                             0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
inline constexpr std::size_t kSpkiBytes = kSpkiPrefix.size() + sizeof(EndpointId);

/// The key in a SubjectPublicKeyInfo; none where it is not an Ed25519 one.
[[nodiscard]] std::optional<EndpointId> key_of_spki(std::span<const std::uint8_t> der);

/// What both libraries keep for one connection. The connection outlives its session.
class TlsSession {
 public:
  virtual ~TlsSession() = default;
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// For ngtcp2_conn_set_tls_native_handle.
  [[nodiscard]] virtual void* native_handle() = 0;
  /// The agreed protocol, once the handshake is complete.
  [[nodiscard]] virtual std::optional<wire::Protocol> protocol() const = 0;

  /// The key that the peer showed; proved once the handshake is complete.
  [[nodiscard]] const std::optional<EndpointId>& peer() const { return peer_; }

  [[nodiscard]] bool is_wrong_peer() const { return is_wrong_peer_; }

 protected:
  TlsSession(ngtcp2_conn* connection, std::optional<EndpointId> expected);

  /// Takes the key from what the peer sent; false ends the handshake.
  [[nodiscard]] bool accept_spki(std::span<const std::uint8_t> der);

  [[nodiscard]] ngtcp2_crypto_conn_ref* reference() { return &reference_; }

  static TlsSession* from(ngtcp2_crypto_conn_ref* reference) {
    return static_cast<TlsSession*>(reference->user_data);
  }

 private:
  ngtcp2_conn* connection_;
  ngtcp2_crypto_conn_ref reference_{};
  std::optional<EndpointId> expected_;
  std::optional<EndpointId> peer_;
  bool is_wrong_peer_ = false;
};

class TlsIdentity {
 public:
  /// Errors: internal, with the library's own words.
  [[nodiscard]] static Result<std::unique_ptr<TlsIdentity>> make(const crypto::KeyPair& key);
  virtual ~TlsIdentity() = default;
  TlsIdentity() = default;
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  /// Null where the library refuses.
  [[nodiscard]] virtual std::unique_ptr<TlsSession> client(ngtcp2_conn* connection,
                                                           std::optional<EndpointId> expected,
                                                           wire::Protocol protocol) = 0;
  /// Takes any protocol of wire::kProtocols.
  [[nodiscard]] virtual std::unique_ptr<TlsSession> server(ngtcp2_conn* connection) = 0;
};

/// From the TLS library's generator.
void fill_random(std::span<std::uint8_t> bytes);

}  // namespace tenzro::net
