#include "tenzro/crypto/address.hpp"

#include "tenzro/crypto/sha256.hpp"

namespace tenzro::crypto {

ProviderAddress address_of(const EndpointId& public_key) {
  return sha256(public_key);
}

}  // namespace tenzro::crypto
