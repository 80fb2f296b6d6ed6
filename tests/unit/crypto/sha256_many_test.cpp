// Many messages at a time against one hasher, whose bits are the library's.
#include "tenzro/crypto/sha256_many.hpp"

#include <algorithm>
#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/crypto/sha256.hpp"

namespace tenzro::crypto {
namespace {

std::vector<std::uint8_t> random_bytes(Prng& prng, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.below(256));
  return bytes;
}

/// Bytes that come in pieces, each from the same memory: a piece that is read too late is another.
class Pieces final : public Sha256Message {
 public:
  Pieces(std::vector<std::uint8_t> bytes, std::vector<std::size_t> sizes)
      : bytes_(std::move(bytes)), sizes_(std::move(sizes)) {}

  [[nodiscard]] std::span<const std::uint8_t> next() override {
    if (at_ == bytes_.size()) return {};
    const std::size_t wanted = sizes_.empty() ? bytes_.size() : sizes_[turn_++ % sizes_.size()];
    const auto rest = std::span(bytes_).subspan(at_);
    const auto piece = rest.first(std::min(wanted, rest.size()));
    at_ += piece.size();
    piece_.assign(piece.begin(), piece.end());
    return piece_;
  }

  [[nodiscard]] Hash32 expected() const { return sha256(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
  std::vector<std::size_t> sizes_;
  std::vector<std::uint8_t> piece_;
  std::size_t at_ = 0;
  std::size_t turn_ = 0;
};

class Sha256Many : public testing::TestWithParam<Sha256Way> {
 protected:
  /// Hashes what was added, and holds every digest against one hasher's.
  void check() {
    std::vector<Hash32> digests(messages_.size());
    std::vector<Sha256Job> jobs;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      jobs.push_back({&messages_[i], &digests[i]});
    }
    sha256_many(jobs, GetParam());
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      EXPECT_EQ(to_hex(digests[i]), to_hex(messages_[i].expected())) << i;
    }
    messages_.clear();
  }

  void add(std::size_t size, std::vector<std::size_t> cuts = {}) {
    messages_.emplace_back(random_bytes(prng_, size), std::move(cuts));
  }

  Prng prng_{11};
  std::deque<Pieces> messages_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Sha256Many, testing::Values(Sha256Way::best, Sha256Way::portable),
                         [](const auto& way) {
                           return way.param == Sha256Way::best ? "best" : "portable";
                         });

TEST_P(Sha256Many, NothingIsAsked) {
  check();
}

TEST_P(Sha256Many, OneMessageOfEveryShortLength) {
  for (std::size_t size = 0; size <= 300; ++size) {
    add(size);
    check();
  }
}

TEST_P(Sha256Many, AllShortLengthsTogether) {
  for (std::size_t size = 0; size <= 300; ++size) add(size);
  check();
  for (std::size_t size = 0; size <= 300; ++size) add(300 - size, {1 + size % 70});
  check();
}

TEST_P(Sha256Many, CutsMakeNoDifference) {
  for (std::size_t cut = 1; cut <= 130; ++cut) {
    add(500, {cut});
    add(517, {cut, 64, 1, 128, 63});
  }
  check();
}

TEST_P(Sha256Many, LanesOfUnequalLength) {
  for (const std::size_t size : {0U, 1U, 55U, 56U, 63U, 64U, 65U, 119U, 120U, 128U, 4096U, 8191U}) {
    add(size);
    add(20'000, {4096});
    check();
    add(20'000, {23, 2048});
    add(size);
    add(size);
    check();
  }
}

TEST_P(Sha256Many, RandomMessagesInRandomPieces) {
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t count = 1 + prng_.below(9);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::vector<std::size_t> cuts(prng_.below(4));
      for (std::size_t& cut : cuts) cut = 1 + prng_.below(200);
      add(prng_.below(2000), std::move(cuts));
    }
    check();
  }
}

TEST(Sha256Text, GivesItsBytesOnce) {
  const std::vector<std::uint8_t> bytes = {1, 2, 3};
  Sha256Text text(bytes);
  EXPECT_EQ(text.next().data(), bytes.data());
  EXPECT_TRUE(text.next().empty());
  EXPECT_TRUE(text.next().empty());
}

}  // namespace
}  // namespace tenzro::crypto
