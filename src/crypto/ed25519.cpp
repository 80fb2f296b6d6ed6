#include "tenzro/crypto/ed25519.hpp"

#include <algorithm>

#include <sodium/crypto_sign.h>
#include <sodium/utils.h>

#include "tenzro/base/assert.hpp"
#include "tenzro/crypto/address.hpp"

namespace tenzro::crypto {

static_assert(crypto_sign_SEEDBYTES == sizeof(Seed));
static_assert(crypto_sign_PUBLICKEYBYTES == sizeof(EndpointId));
static_assert(crypto_sign_SECRETKEYBYTES == 64);
static_assert(crypto_sign_BYTES == sizeof(Signature));

KeyPair KeyPair::from_seed(const Seed& seed) {
  KeyPair pair;
  const int made =
      crypto_sign_seed_keypair(pair.public_key_.data(), pair.secret_.data(), seed.data());
  TENZRO_ASSERT(made == 0);
  return pair;
}

KeyPair::KeyPair(KeyPair&& other) noexcept
    : public_key_(other.public_key_), secret_(other.secret_) {
  sodium_memzero(other.secret_.data(), other.secret_.size());
}

KeyPair& KeyPair::operator=(KeyPair&& other) noexcept {
  if (this == &other) return *this;
  public_key_ = other.public_key_;
  secret_ = other.secret_;
  sodium_memzero(other.secret_.data(), other.secret_.size());
  return *this;
}

KeyPair::~KeyPair() {
  sodium_memzero(secret_.data(), secret_.size());
}

ProviderAddress KeyPair::address() const {
  return address_of(public_key_);
}

Seed KeyPair::seed() const {
  Seed seed{};
  std::copy_n(secret_.begin(), seed.size(), seed.begin());
  return seed;
}

Signature KeyPair::sign(std::span<const std::uint8_t> message) const {
  Signature signature{};
  const int made = crypto_sign_detached(signature.data(), nullptr, message.data(), message.size(),
                                        secret_.data());
  TENZRO_ASSERT(made == 0);
  return signature;
}

bool verify(const EndpointId& public_key, std::span<const std::uint8_t> message,
            const Signature& signature) {
  return crypto_sign_verify_detached(signature.data(), message.data(), message.size(),
                                     public_key.data()) == 0;
}

}  // namespace tenzro::crypto
