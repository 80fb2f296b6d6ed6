#pragma once
/// \file
/// Provider addresses: the 32 bytes that a node is known and paid by.
///
/// The address is the SHA-256 of the raw 32-byte Ed25519 public key, all of it. A receipt or record
/// whose key does not hash to the provider it names is refused. Pure. Thread: any.
#include "tenzro/base/ids.hpp"

namespace tenzro::crypto {

[[nodiscard]] ProviderAddress address_of(const EndpointId& public_key);

}  // namespace tenzro::crypto
