#include <algorithm>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/bytes.hpp"

#include "support/instrumented.hpp"

namespace tenzro {
namespace {

TEST(Bytes, HexRoundTripsAndRefusesUpperCase) {
  Hash32 hash{};
  hash[0] = 0xAB;
  hash[31] = 0x01;
  const std::string hex = to_hex(hash);
  EXPECT_EQ(hash_from_hex(hex), hash);
  EXPECT_EQ(hash_from_hex("AB" + hex.substr(2)), std::nullopt);
  EXPECT_EQ(hash_from_hex(hex.substr(1)), std::nullopt);
}

TEST(Bytes, Base58KeepsLeadingZeros) {
  const std::uint8_t bytes[] = {0, 0, 1, 0};
  EXPECT_EQ(to_base58(bytes), "115R");
  EXPECT_EQ(to_base58({}), "");
}

TEST(Bytes, EchoEscapesControlsAndCutsLongText) {
  EXPECT_EQ(echo("a\nb\xff"), "a\\x0ab\\xff");
  EXPECT_EQ(echo("é"), "é");
  const std::string cut = echo(std::string(1000, 'x'));
  EXPECT_EQ(cut, std::string(kEchoBytesMax, 'x') + "…");
}

TEST(Bytes, Utf8RefusesOverlongSurrogatesAndCutSequences) {
  EXPECT_TRUE(is_valid_utf8("plain, é, 日本, 🙂"));
  EXPECT_FALSE(is_valid_utf8("\xC0\x80"));
  EXPECT_FALSE(is_valid_utf8("\xED\xA0\x80"));
  EXPECT_FALSE(is_valid_utf8("\xF4\x90\x80\x80"));
  EXPECT_FALSE(is_valid_utf8("\xE6\x97"));
}

TEST(Bytes, CheckedArithmeticSeesOverflow) {
  EXPECT_EQ(checked_mul(1ULL << 32U, 1ULL << 32U), std::nullopt);
  EXPECT_EQ(checked_mul(3, 4), 12U);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
}

TEST(Buffer, SliceSharesTheBytesAndOutlivesItsParent) {
  BufferRef part;
  {
    const BufferRef whole = BufferRef::copy_of("hello world");
    part = whole.slice(6, 5);
  }
  EXPECT_EQ(part.text(), "world");
}

/// Of this process, in memory: counted page by page, not estimated.
std::size_t resident_kibibytes() {
  std::ifstream all("/proc/self/smaps_rollup");
  std::string word;
  std::size_t kibibytes = 0;
  while (all >> word && word != "Rss:") {
  }
  all >> kibibytes;
  return kibibytes;
}

TEST(Buffer, TakesLittleMoreMemoryThanItHasBytes) {
  if (testing::kIsInstrumented) GTEST_SKIP() << "the instrumentation's memory counts too";
  if (resident_kibibytes() == 0) GTEST_SKIP() << "the system does not say";
  for (const std::size_t kibibytes : {1536U, 3072U, 5120U, 48128U}) {
    const std::size_t before = resident_kibibytes();
    BufferRef buffer = BufferRef::allocate(kibibytes << 10U);
    const std::span<std::byte> bytes = buffer.mutable_bytes();
    std::fill(bytes.begin(), bytes.end(), std::byte{1});
    EXPECT_LE(resident_kibibytes(), before + kibibytes + kibibytes / 16 + 64) << kibibytes;
  }
}

TEST(Buffer, IsAlignedForWholeCacheLines) {
  BufferRef buffer = BufferRef::allocate(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.mutable_bytes().data()) % 64, 0U);
  EXPECT_EQ(buffer.as<float>().size(), 25U);
}

}  // namespace
}  // namespace tenzro
