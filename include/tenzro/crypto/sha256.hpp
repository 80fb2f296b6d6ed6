#pragma once
/// \file
/// SHA-256 (FIPS 180-4), at once or piece by piece: addresses, receipts, request bodies.
///
/// Rules
///  - The digest depends on the bytes alone, never on how they were cut into updates.
///  - `finish` ends a hasher; it is then ready for a new message.
/// Cost: about 0.5 ns a byte where the processor has SHA instructions. Pure. Thread: one at a time.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tenzro/base/ids.hpp"

namespace tenzro::crypto {

class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  Sha256& update(std::span<const std::uint8_t> bytes);
  Sha256& update(std::span<const std::byte> bytes);
  /// The bytes of the text, without a terminating zero.
  Sha256& update(std::string_view text);
  /// Four bytes, little-endian.
  Sha256& update_u32(std::uint32_t value);

  [[nodiscard]] Hash32 finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] Hash32 sha256(std::span<const std::uint8_t> bytes);
[[nodiscard]] Hash32 sha256(std::string_view text);

}  // namespace tenzro::crypto
