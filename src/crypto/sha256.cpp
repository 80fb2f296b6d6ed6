#include "tenzro/crypto/sha256.hpp"

#include <openssl/evp.h>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

namespace tenzro::crypto {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

/// Looked up once: the library would search its providers for it at every hash.
const EVP_MD* method() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}

/// The library refuses these calls only where memory or its own default provider is missing.
void start(EVP_MD_CTX* context) {
  const int started = EVP_DigestInit_ex(context, method(), nullptr);
  TENZRO_ASSERT(started == 1);
}

}  // namespace

Sha256::Sha256() : state_(std::make_unique<State>()) {
  TENZRO_ASSERT(state_->context != nullptr);
  start(state_->context);
}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

Sha256& Sha256::update(std::span<const std::uint8_t> bytes) {
  const int updated = EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
  TENZRO_ASSERT(updated == 1);
  return *this;
}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  return update(as_u8(bytes));
}

Sha256& Sha256::update(std::string_view text) {
  return update(as_u8(text));
}

Sha256& Sha256::update_u32(std::uint32_t value) {
  std::uint8_t bytes[4];
  for (unsigned i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
  return update(bytes);
}

Hash32 Sha256::finish() {
  Hash32 digest{};
  unsigned size = 0;
  const int finished = EVP_DigestFinal_ex(state_->context, digest.data(), &size);
  TENZRO_ASSERT(finished == 1);
  TENZRO_ASSERT(size == digest.size());
  // The context keeps its algorithm: looking it up again costs as much as hashing a kilobyte.
  const int restarted = EVP_DigestInit_ex(state_->context, nullptr, nullptr);
  TENZRO_ASSERT(restarted == 1);
  return digest;
}

Hash32 sha256(std::span<const std::uint8_t> bytes) {
  Hash32 digest{};
  unsigned size = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, method(), nullptr);
  TENZRO_ASSERT(done == 1);
  TENZRO_ASSERT(size == digest.size());
  return digest;
}

Hash32 sha256(std::string_view text) {
  return sha256(as_u8(text));
}

}  // namespace tenzro::crypto
