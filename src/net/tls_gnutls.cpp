// tls.hpp over GnuTLS.
#include "tls.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

#include "tenzro/base/assert.hpp"

namespace tenzro::net {
namespace {

// AES first: it has instructions on every machine that matters, ChaCha20 costs five times as much.
// The compatibility mode is for middle boxes on TCP; QUIC forbids it.
constexpr const char* kPriority =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:"
    "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:-SIGN-ALL:+SIGN-EDDSA-ED25519:"
    "-CTYPE-ALL:+CTYPE-RAWPK:%DISABLE_TLS13_COMPAT_MODE";

using Credentials = std::unique_ptr<std::remove_pointer_t<gnutls_certificate_credentials_t>,
                                    decltype(&gnutls_certificate_free_credentials)>;
using PrivateKey = std::unique_ptr<std::remove_pointer_t<gnutls_x509_privkey_t>,
                                   decltype(&gnutls_x509_privkey_deinit)>;

gnutls_datum_t datum_of(std::span<std::uint8_t> bytes) {
  return {bytes.data(), static_cast<unsigned>(bytes.size())};
}

tl::unexpected<Error> failed(const char* what, int code) {
  return fail(ErrorCode::internal, what, gnutls_strerror(code));
}

class GnutlsSession final : public TlsSession {
 public:
  GnutlsSession(ngtcp2_conn* connection, std::optional<EndpointId> expected)
      : TlsSession(connection, expected) {}

  ~GnutlsSession() override {
    if (session_ != nullptr) gnutls_deinit(session_);
  }

  GnutlsSession(const GnutlsSession&) = delete;
  GnutlsSession& operator=(const GnutlsSession&) = delete;

  [[nodiscard]] bool open(unsigned side, gnutls_certificate_credentials_t credentials,
                          std::span<const wire::Protocol> protocols) {
    const unsigned flags = side | GNUTLS_ENABLE_RAWPK | GNUTLS_NO_TICKETS;
    if (gnutls_init(&session_, flags) != 0) return false;
    if (gnutls_priority_set_direct(session_, kPriority, nullptr) != 0) return false;
    const bool is_server = side == GNUTLS_SERVER;
    const int configured = is_server ? ngtcp2_crypto_gnutls_configure_server_session(session_)
                                     : ngtcp2_crypto_gnutls_configure_client_session(session_);
    if (configured != 0) return false;
    gnutls_session_set_ptr(session_, reference());
    if (gnutls_credentials_set(session_, GNUTLS_CRD_CERTIFICATE, credentials) != 0) return false;
    gnutls_session_set_verify_function(session_, verify);
    if (is_server) gnutls_certificate_server_set_request(session_, GNUTLS_CERT_REQUIRE);
    return offer(protocols);
  }

  void* native_handle() override { return session_; }

  [[nodiscard]] std::optional<wire::Protocol> protocol() const override {
    gnutls_datum_t selected{};
    if (gnutls_alpn_get_selected_protocol(session_, &selected) != 0) return std::nullopt;
    const void* bytes = selected.data;
    return wire::protocol_from_alpn({static_cast<const char*>(bytes), selected.size});
  }

 private:
  [[nodiscard]] bool offer(std::span<const wire::Protocol> protocols) {
    std::vector<std::string> names;
    for (const wire::Protocol protocol : protocols) names.emplace_back(wire::alpn_of(protocol));
    std::vector<gnutls_datum_t> offered;
    for (std::string& name : names) {
      void* bytes = name.data();
      offered.push_back({static_cast<unsigned char*>(bytes), static_cast<unsigned>(name.size())});
    }
    return gnutls_alpn_set_protocols(session_, offered.data(),
                                     static_cast<unsigned>(offered.size()),
                                     GNUTLS_ALPN_MANDATORY) == 0;
  }

  static int verify(gnutls_session_t session) {
    auto* self = static_cast<GnutlsSession*>(
        from(static_cast<ngtcp2_crypto_conn_ref*>(gnutls_session_get_ptr(session))));
    if (gnutls_certificate_type_get2(session, GNUTLS_CTYPE_PEERS) != GNUTLS_CRT_RAWPK) return -1;
    unsigned count = 0;
    const gnutls_datum_t* keys = gnutls_certificate_get_peers(session, &count);
    if (keys == nullptr || count != 1) return -1;
    return self->accept_spki({keys[0].data, keys[0].size}) ? 0 : -1;
  }

  gnutls_session_t session_ = nullptr;
};

class GnutlsIdentity final : public TlsIdentity {
 public:
  explicit GnutlsIdentity(Credentials credentials) : credentials_(std::move(credentials)) {}

  std::unique_ptr<TlsSession> client(ngtcp2_conn* connection, std::optional<EndpointId> expected,
                                     wire::Protocol protocol) override {
    auto session = std::make_unique<GnutlsSession>(connection, expected);
    if (!session->open(GNUTLS_CLIENT, credentials_.get(), {&protocol, 1})) return nullptr;
    return session;
  }

  std::unique_ptr<TlsSession> server(ngtcp2_conn* connection) override {
    auto session = std::make_unique<GnutlsSession>(connection, std::nullopt);
    if (!session->open(GNUTLS_SERVER, credentials_.get(), wire::kProtocols)) return nullptr;
    return session;
  }

 private:
  Credentials credentials_;
};

/// The key pair as PKCS#8, which is what the credentials take. The caller frees it.
Result<gnutls_datum_t> pkcs8_of(const crypto::KeyPair& key) {
  gnutls_x509_privkey_t made = nullptr;
  if (const int code = gnutls_x509_privkey_init(&made); code != 0) return failed("init", code);
  const PrivateKey owned(made, gnutls_x509_privkey_deinit);
  EndpointId public_key = key.public_key();
  crypto::Seed seed = key.seed();
  const gnutls_datum_t x = datum_of(public_key);
  const gnutls_datum_t k = datum_of(seed);
  const int imported =
      gnutls_x509_privkey_import_ecc_raw(made, GNUTLS_ECC_CURVE_ED25519, &x, nullptr, &k);
  gnutls_memset(seed.data(), 0, seed.size());
  if (imported != 0) return failed("import", imported);
  gnutls_datum_t der{};
  const int exported = gnutls_x509_privkey_export2_pkcs8(made, GNUTLS_X509_FMT_DER, nullptr,
                                                         GNUTLS_PKCS_PLAIN, &der);
  if (exported != 0) return failed("export", exported);
  return der;
}

}  // namespace

Result<std::unique_ptr<TlsIdentity>> TlsIdentity::make(const crypto::KeyPair& key) {
  gnutls_certificate_credentials_t made = nullptr;
  const int allocated = gnutls_certificate_allocate_credentials(&made);
  if (allocated != 0) return failed("credentials", allocated);
  Credentials credentials(made, gnutls_certificate_free_credentials);
  std::array<std::uint8_t, kSpkiBytes> spki{};
  std::copy(kSpkiPrefix.begin(), kSpkiPrefix.end(), spki.begin());
  std::copy(key.public_key().begin(), key.public_key().end(), spki.begin() + kSpkiPrefix.size());
  Result<gnutls_datum_t> pkcs8 = pkcs8_of(key);
  if (!pkcs8) return fail(std::move(pkcs8.error()));
  const gnutls_datum_t public_part = datum_of(spki);
  const int set = gnutls_certificate_set_rawpk_key_mem(
      made, &public_part, &*pkcs8, GNUTLS_X509_FMT_DER, nullptr, 0, nullptr, 0, 0);
  gnutls_memset(pkcs8->data, 0, pkcs8->size);
  gnutls_free(pkcs8->data);
  if (set < 0) return failed("raw public key", set);
  return std::make_unique<GnutlsIdentity>(std::move(credentials));
}

void fill_random(std::span<std::uint8_t> bytes) {
  const int filled = gnutls_rnd(GNUTLS_RND_RANDOM, bytes.data(), bytes.size());
  TENZRO_ASSERT(filled == 0);
}

}  // namespace tenzro::net
