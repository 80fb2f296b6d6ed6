#pragma once
/// \file
/// HashFollower: the hash of bytes that are still being read, by another thread where one is idle.
///
/// The reader tells how far it has come, a helper hashes up to there and waits for more. One that
/// never gets to it, because all threads have better to do, costs nothing: the reader then hashes
/// by itself at the end. Reading and hashing 5 MB so takes as long as reading them alone.
/// Thread: `follow` from any one, the rest from the reader's. The bytes must outlive `finish` or
/// `abandon`, which wait for a helper that has begun; one that comes later does nothing.
#include <atomic>
#include <cstddef>
#include <functional>
#include <span>

#include "tenzro/base/ids.hpp"
#include "tenzro/crypto/blake3.hpp"

namespace tenzro::store {

/// Runs work on the next thread that is free, or never; false: certainly never.
using Beside = std::function<bool(std::function<void()> work)>;

class HashFollower {
 public:
  explicit HashFollower(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// The helper's part.
  void follow();

  /// The first `end` bytes are there.
  void advance(std::size_t end);
  /// Requires that all have come.
  [[nodiscard]] BlobHash finish();
  /// The rest does not come.
  void abandon();

 private:
  std::span<const std::byte> bytes_;
  crypto::Blake3 hasher_;
  std::atomic<bool> is_taken_{false};
  std::atomic<bool> is_done_{false};
  std::atomic<bool> is_abandoned_{false};
  std::atomic<std::size_t> end_{0};
};

}  // namespace tenzro::store
