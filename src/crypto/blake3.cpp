#include "tenzro/crypto/blake3.hpp"

#include <blake3.h>

namespace tenzro::crypto {

struct Blake3::State {
  blake3_hasher hasher;
};

Blake3::Blake3() : state_(std::make_unique<State>()) {
  blake3_hasher_init(&state_->hasher);
}

Blake3::Blake3(Blake3&&) noexcept = default;
Blake3& Blake3::operator=(Blake3&&) noexcept = default;
Blake3::~Blake3() = default;

Blake3& Blake3::update(std::span<const std::uint8_t> bytes) {
  if (!bytes.empty()) blake3_hasher_update(&state_->hasher, bytes.data(), bytes.size());
  return *this;
}

Blake3& Blake3::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) blake3_hasher_update(&state_->hasher, bytes.data(), bytes.size());
  return *this;
}

Blake3& Blake3::update(std::string_view text) {
  if (!text.empty()) blake3_hasher_update(&state_->hasher, text.data(), text.size());
  return *this;
}

BlobHash Blake3::digest() const {
  BlobHash hash{};
  blake3_hasher_finalize(&state_->hasher, hash.data(), hash.size());
  return hash;
}

BlobHash blake3(std::span<const std::byte> bytes) {
  return Blake3().update(bytes).digest();
}

BlobHash blake3(std::span<const std::uint8_t> bytes) {
  return Blake3().update(bytes).digest();
}

BlobHash blake3(std::string_view text) {
  return Blake3().update(text).digest();
}

}  // namespace tenzro::crypto
