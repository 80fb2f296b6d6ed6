#include "tenzro/crypto/hmac.hpp"

#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/utils.h>

namespace tenzro::crypto {

Hash32 hmac_sha256(std::span<const std::uint8_t> key, std::span<const std::uint8_t> message) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  crypto_auth_hmacsha256_update(&state, message.data(), message.size());
  Hash32 tag{};
  crypto_auth_hmacsha256_final(&state, tag.data());
  sodium_memzero(&state, sizeof state);
  return tag;
}

bool equal_in_constant_time(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  if (a.size() != b.size()) return false;
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tenzro::crypto
