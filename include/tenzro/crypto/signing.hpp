#pragma once
/// \file
/// Signing and verifying as a seam: whoever sends and receives signed bytes asks this.
///
/// Why a seam: a simulation of many nodes checks each signature once for all of them.
/// Thread: any (const).
#include <cstdint>
#include <span>

#include "tenzro/crypto/ed25519.hpp"

namespace tenzro::crypto {

class Signing {
 public:
  Signing() = default;
  virtual ~Signing() = default;
  Signing(const Signing&) = delete;
  Signing& operator=(const Signing&) = delete;

  [[nodiscard]] virtual const EndpointId& public_key() const = 0;
  [[nodiscard]] virtual Signature sign(std::span<const std::uint8_t> message) const = 0;
  [[nodiscard]] virtual bool is_signed(const EndpointId& key, std::span<const std::uint8_t> message,
                                       const Signature& signature) const = 0;
};

/// The real one. The key pair outlives it.
class KeySigning final : public Signing {
 public:
  explicit KeySigning(const KeyPair& key) : key_(key) {}

  [[nodiscard]] const EndpointId& public_key() const override { return key_.public_key(); }

  [[nodiscard]] Signature sign(std::span<const std::uint8_t> message) const override {
    return key_.sign(message);
  }

  [[nodiscard]] bool is_signed(const EndpointId& key, std::span<const std::uint8_t> message,
                               const Signature& signature) const override {
    return verify(key, message, signature);
  }

 private:
  const KeyPair& key_;
};

}  // namespace tenzro::crypto
