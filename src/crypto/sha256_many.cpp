#include "tenzro/crypto/sha256_many.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <cpuid.h>

#include "tenzro/crypto/sha256.hpp"

#include "sha256_blocks.hpp"

namespace tenzro::crypto {
namespace {

using Words = std::array<std::uint32_t, kSha256Words>;

constexpr Words kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::size_t kLengthBytes = 8;

/// A message under way, cut into whole blocks.
class Lane {
 public:
  void begin(const Sha256Job& job) {
    message_ = job.message;
    digest_ = job.digest;
    state_ = kStart;
    rest_ = {};
    kept_ = 0;
    bytes_ = 0;
    is_ended_ = false;
  }

  [[nodiscard]] bool is_under_way() const { return message_ != nullptr; }

  std::uint32_t* state() { return state_.data(); }

  /// Whole blocks to be compressed next: at least one, until `take` was called for the last.
  std::span<const std::uint8_t> blocks() {
    while (!is_ended_ && (kept_ != 0 || rest_.size() < kSha256BlockBytes)) {
      if (rest_.empty()) {
        rest_ = message_->next();
        bytes_ += rest_.size();
        if (rest_.empty()) end();
        continue;
      }
      const std::size_t count = std::min(kSha256BlockBytes - kept_, rest_.size());
      std::copy_n(rest_.begin(), count, block_.begin() + static_cast<std::ptrdiff_t>(kept_));
      rest_ = rest_.subspan(count);
      kept_ += count;
      if (kept_ == kSha256BlockBytes) break;
    }
    if (kept_ != 0) return std::span(block_).first(kept_);
    return rest_.first(rest_.size() / kSha256BlockBytes * kSha256BlockBytes);
  }

  /// The first `size` bytes of `blocks` are in the state.
  void take(std::size_t size) {
    if (kept_ == 0) {
      rest_ = rest_.subspan(size);
      return;
    }
    // The padding may have two blocks.
    std::copy(block_.begin() + static_cast<std::ptrdiff_t>(size), block_.end(), block_.begin());
    kept_ -= size;
    if (is_ended_ && kept_ == 0) finish();
  }

 private:
  /// A one bit, zeros, the length in bits, big-endian.
  void end() {
    is_ended_ = true;
    const std::size_t size =
        kept_ + 1 + kLengthBytes <= kSha256BlockBytes ? kSha256BlockBytes : 2 * kSha256BlockBytes;
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(kept_), block_.end(), std::uint8_t{0});
    block_.at(kept_) = 0x80;
    const std::uint64_t bits = 8 * bytes_;
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
      block_.at(size - 1 - i) = static_cast<std::uint8_t>(bits >> (8 * i));
    }
    kept_ = size;
  }

  void finish() {
    for (std::size_t i = 0; i < digest_->size(); ++i) {
      digest_->at(i) = static_cast<std::uint8_t>(state_.at(i / 4) >> (8 * (3 - i % 4)));
    }
    message_ = nullptr;
  }

  Sha256Message* message_ = nullptr;
  Hash32* digest_ = nullptr;
  Words state_{};
  std::span<const std::uint8_t> rest_;
  /// The end of a piece that is not a whole block, or the padding.
  std::array<std::uint8_t, 2 * kSha256BlockBytes> block_{};
  std::size_t kept_ = 0;
  std::uint64_t bytes_ = 0;
  bool is_ended_ = false;
};

/// Until one of them ends.
void run_pair(Lane& a, Lane& b) {
  while (a.is_under_way() && b.is_under_way()) {
    const auto blocks_a = a.blocks();
    const auto blocks_b = b.blocks();
    const std::size_t size = std::min(blocks_a.size(), blocks_b.size());
    compress_pair(a.state(), blocks_a.data(), b.state(), blocks_b.data(), size / kSha256BlockBytes);
    a.take(size);
    b.take(size);
  }
}

void run_alone(Lane& lane) {
  while (lane.is_under_way()) {
    const auto blocks = lane.blocks();
    compress_one(lane.state(), blocks.data(), blocks.size() / kSha256BlockBytes);
    lane.take(blocks.size());
  }
}

void hash_in_pairs(std::span<const Sha256Job> jobs) {
  Lane a;
  Lane b;
  for (const Sha256Job& job : jobs) {
    (a.is_under_way() ? b : a).begin(job);
    run_pair(a, b);
  }
  run_alone(a);
  run_alone(b);
}

void hash_one_by_one(std::span<const Sha256Job> jobs) {
  Sha256 hasher;
  for (const Sha256Job& job : jobs) {
    for (auto piece = job.message->next(); !piece.empty(); piece = job.message->next()) {
      hasher.update(piece);
    }
    *job.digest = hasher.finish();
  }
}

}  // namespace

/// SHA is not among the names that clang 14 lets __builtin_cpu_supports ask for.
bool has_sha_instructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  const bool has_sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
  return has_sha && __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3");
}

std::span<const std::uint8_t> Sha256Text::next() {
  return std::exchange(bytes_, {});
}

void sha256_many(std::span<const Sha256Job> jobs, Sha256Way way) {
  static const bool has_instructions = has_sha_instructions();
  if (has_instructions && way == Sha256Way::best) {
    hash_in_pairs(jobs);
  } else {
    hash_one_by_one(jobs);
  }
}

}  // namespace tenzro::crypto
