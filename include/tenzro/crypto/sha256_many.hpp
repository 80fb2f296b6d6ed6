#pragma once
/// \file
/// SHA-256 of many independent messages, two at a time where the processor has SHA instructions.
///
/// Why: each round waits for the one before, so that one message leaves the unit idle for half of
/// the time. A second message fills the gaps.
/// Rules
///  - A digest is the same as by `Sha256`: it depends on the message's bytes alone, never on how
///  they
///    were cut, on the other messages or on the way.
///  - Messages are started in their order, each when one of the two before it ends. For the best
///  use
///    of both the long ones go first.
///  - A message is read once, piece by piece, so that it need not stand anywhere as a whole.
/// Cost: about 0.3 ns a byte with two messages under way, 0.55 with one. Pure. Thread: any.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenzro/base/ids.hpp"

namespace tenzro::crypto {

/// What is to be hashed, read from its beginning.
class Sha256Message {
 public:
  virtual ~Sha256Message() = default;
  /// The bytes that follow, at least one; they stay as they are until the next call. Nothing at
  /// the end, and nothing ever after.
  [[nodiscard]] virtual std::span<const std::uint8_t> next() = 0;
};

/// Bytes that stand somewhere.
class Sha256Text final : public Sha256Message {
 public:
  explicit Sha256Text(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::span<const std::uint8_t> next() override;

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Portable: one after the other, as on a processor without SHA instructions.
enum class Sha256Way : std::uint8_t { best, portable };

struct Sha256Job {
  Sha256Message* message = nullptr;
  Hash32* digest = nullptr;
};

/// Requires distinct messages and digests.
void sha256_many(std::span<const Sha256Job> jobs, Sha256Way way = Sha256Way::best);

}  // namespace tenzro::crypto
