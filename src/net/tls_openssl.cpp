// tls.hpp over OpenSSL >= 3.5, whose TLS has raw public keys and hooks for QUIC.
#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include <ngtcp2/ngtcp2_crypto_ossl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include "tenzro/base/assert.hpp"

#include "tls.hpp"

namespace tenzro::net {
namespace {

// AES first: it has instructions on every machine that matters, ChaCha20 costs several times as
// much.
constexpr const char* kCiphers =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
// What the library itself chooses begins with a hybrid (since 3.5) whose share alone fills a
// packet: a newcomer's first message would be two packets, each of which may have to prove its
// address.
constexpr const char* kGroups = "X25519:P-256";

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

tl::unexpected<Error> failed(const char* what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  return fail(ErrorCode::internal, what, text.data());
}

class OpensslSession final : public TlsSession {
 public:
  OpensslSession(ngtcp2_conn* connection, std::optional<EndpointId> expected)
      : TlsSession(connection, expected) {}

  ~OpensslSession() override {
    // The context of ngtcp2 must not be reached through a session that outlives it.
    if (ssl_ != nullptr) SSL_set_app_data(ssl_, nullptr);
    if (quic_context_ != nullptr) ngtcp2_crypto_ossl_ctx_del(quic_context_);
    SSL_free(ssl_);
  }

  OpensslSession(const OpensslSession&) = delete;
  OpensslSession& operator=(const OpensslSession&) = delete;

  [[nodiscard]] bool open(SSL_CTX* context) {
    ssl_ = SSL_new(context);
    if (ssl_ == nullptr || ngtcp2_crypto_ossl_ctx_new(&quic_context_, ssl_) != 0) return false;
    SSL_set_app_data(ssl_, reference());
    return true;
  }

  [[nodiscard]] bool begin_client(wire::Protocol protocol) {
    if (ngtcp2_crypto_ossl_configure_client_session(ssl_) != 0) return false;
    SSL_set_connect_state(ssl_);
    const std::string_view name = wire::alpn_of(protocol);
    std::string offer(1, static_cast<char>(name.size()));
    offer += name;
    const void* bytes = offer.data();
    return SSL_set_alpn_protos(ssl_, static_cast<const unsigned char*>(bytes),
                               static_cast<unsigned>(offer.size())) == 0;
  }

  [[nodiscard]] bool begin_server() {
    if (ngtcp2_crypto_ossl_configure_server_session(ssl_) != 0) return false;
    SSL_set_accept_state(ssl_);
    return true;
  }

  void* native_handle() override { return quic_context_; }

  [[nodiscard]] std::optional<wire::Protocol> protocol() const override {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    const void* bytes = name;
    return wire::protocol_from_alpn({static_cast<const char*>(bytes), size});
  }

  /// Called by the library with what the peer showed.
  static int verify(X509_STORE_CTX* store, void*) {
    const EVP_PKEY* key = X509_STORE_CTX_get0_rpk(store);
    if (key == nullptr) return 0;
    const auto* ssl = static_cast<const SSL*>(
        X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* self = static_cast<OpensslSession*>(
        from(static_cast<ngtcp2_crypto_conn_ref*>(SSL_get_app_data(ssl))));
    unsigned char* der = nullptr;
    const int size = i2d_PUBKEY(key, &der);
    if (size <= 0) return 0;
    const bool is_accepted = self->accept_spki({der, static_cast<std::size_t>(size)});
    OPENSSL_free(der);
    X509_STORE_CTX_set_error(store, is_accepted ? X509_V_OK : X509_V_ERR_APPLICATION_VERIFICATION);
    return is_accepted ? 1 : 0;
  }

 private:
  SSL* ssl_ = nullptr;
  ngtcp2_crypto_ossl_ctx* quic_context_ = nullptr;
};

/// Takes the first protocol on offer that we speak.
int select_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offer, unsigned offer_size, void*) {
  for (unsigned at = 0; at < offer_size; at += 1U + offer[at]) {
    if (at + 1U + offer[at] > offer_size) break;
    const void* name = offer + at + 1;
    if (!wire::protocol_from_alpn({static_cast<const char*>(name), offer[at]})) continue;
    *chosen = offer + at + 1;
    *chosen_size = offer[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

Context make_context(const SSL_METHOD* method, EVP_PKEY* key) {
  static constexpr std::array<unsigned char, 1> kRawKeys = {TLSEXT_cert_type_rpk};
  Context context(SSL_CTX_new(method), SSL_CTX_free);
  SSL_CTX* raw = context.get();
  if (raw == nullptr) return context;
  SSL_CTX_set_options(raw, SSL_OP_NO_TICKET);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(raw, OpensslSession::verify, nullptr);
  SSL_CTX_set_alpn_select_cb(raw, select_protocol, nullptr);
  const bool is_set =
      SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(raw, kCiphers) == 1 && SSL_CTX_set1_groups_list(raw, kGroups) == 1 &&
      SSL_CTX_set1_sigalgs_list(raw, "ed25519") == 1 && SSL_CTX_set_num_tickets(raw, 0) == 1 &&
      SSL_CTX_set1_client_cert_type(raw, kRawKeys.data(), kRawKeys.size()) == 1 &&
      SSL_CTX_set1_server_cert_type(raw, kRawKeys.data(), kRawKeys.size()) == 1 &&
      SSL_CTX_use_PrivateKey(raw, key) == 1;
  if (!is_set) context.reset();
  return context;
}

class OpensslIdentity final : public TlsIdentity {
 public:
  OpensslIdentity(Context client, Context server)
      : client_(std::move(client)), server_(std::move(server)) {}

  std::unique_ptr<TlsSession> client(ngtcp2_conn* connection, std::optional<EndpointId> expected,
                                     wire::Protocol protocol) override {
    auto session = std::make_unique<OpensslSession>(connection, expected);
    if (!session->open(client_.get()) || !session->begin_client(protocol)) return nullptr;
    return session;
  }

  std::unique_ptr<TlsSession> server(ngtcp2_conn* connection) override {
    auto session = std::make_unique<OpensslSession>(connection, std::nullopt);
    if (!session->open(server_.get()) || !session->begin_server()) return nullptr;
    return session;
  }

 private:
  Context client_;
  Context server_;
};

}  // namespace

Result<std::unique_ptr<TlsIdentity>> TlsIdentity::make(const crypto::KeyPair& key) {
  if (ngtcp2_crypto_ossl_init() != 0) return failed("init");
  crypto::Seed seed = key.seed();
  const Key made(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()),
                 EVP_PKEY_free);
  OPENSSL_cleanse(seed.data(), seed.size());
  if (!made) return failed("private key");
  Context client = make_context(TLS_client_method(), made.get());
  Context server = make_context(TLS_server_method(), made.get());
  if (!client || !server) return failed("context");
  return std::make_unique<OpensslIdentity>(std::move(client), std::move(server));
}

void fill_random(std::span<std::uint8_t> bytes) {
  const int filled = RAND_bytes(bytes.data(), static_cast<int>(bytes.size()));
  TENZRO_ASSERT(filled == 1);
}

}  // namespace tenzro::net
