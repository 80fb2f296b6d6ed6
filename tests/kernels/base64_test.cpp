// The vector codecs against the portable pair and libsodium, with buffers that end where memory
// ends.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tenzro/base/prng.hpp"

#include "kernels/cpu/backend/base64_table.hpp"

namespace tenzro::kernels {
namespace {

/// Bytes whose end is the end of readable memory: one further is a crash.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t size) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    usable_ = (size + page_ - 1) / page_ * page_;
    void* memory =
        mmap(nullptr, usable_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    base_ = static_cast<std::uint8_t*>(memory);
    EXPECT_EQ(mprotect(base_ + usable_, page_, PROT_NONE), 0);
    data_ = base_ + usable_ - size;
  }

  ~GuardedBytes() { munmap(base_, usable_ + page_); }

  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  [[nodiscard]] std::uint8_t* data() const { return data_; }

  [[nodiscard]] char* text() const { return static_cast<char*>(static_cast<void*>(data_)); }

 private:
  std::size_t page_;
  std::size_t usable_ = 0;
  std::uint8_t* base_ = nullptr;
  std::uint8_t* data_ = nullptr;
};

std::vector<std::uint8_t> random_bytes(std::size_t size, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<std::uint8_t> bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.next());
  return bytes;
}

std::string sodium_text(const std::vector<std::uint8_t>& bytes) {
  std::string text(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(),
                    sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();  // its terminator
  return text;
}

class Base64 : public ::testing::TestWithParam<Base64Line> {
 protected:
  void SetUp() override {
    if (!GetParam().is_available()) GTEST_SKIP() << GetParam().name << " is not available here";
  }
};

TEST_P(Base64, EncodesEveryLengthAsLibsodiumDoes) {
  for (std::size_t size = 0; size <= 300; ++size) {
    const auto bytes = random_bytes(size, size);
    EXPECT_EQ(base64_encode(bytes, GetParam().kernels), sodium_text(bytes)) << size;
  }
}

TEST_P(Base64, EncoderConsumesWholeGroupsAndStaysInsideItsBuffers) {
  for (std::size_t size = 0; size <= 300; ++size) {
    const auto bytes = random_bytes(size, size);
    const GuardedBytes in(size);
    const GuardedBytes out(size / 3 * 4);
    std::copy(bytes.begin(), bytes.end(), in.data());
    const std::size_t consumed = GetParam().kernels.encode(in.data(), size, out.text());
    ASSERT_LE(consumed, size);
    ASSERT_EQ(consumed % 3, 0U);
    EXPECT_TRUE(size < 64 || consumed >= size - 64) << "left the work to the caller";
    EXPECT_EQ(sodium_text(bytes).substr(0, consumed / 3 * 4),
              std::string(out.text(), consumed / 3 * 4));
  }
}

TEST_P(Base64, DecoderConsumesWholeGroupsAndStaysInsideItsBuffers) {
  for (std::size_t groups = 0; groups <= 100; ++groups) {
    const auto bytes = random_bytes(groups * 3, groups);
    const std::string text = sodium_text(bytes);
    for (std::size_t extra = 0; extra < 4; ++extra) {
      const std::size_t size = text.size() + extra;
      const GuardedBytes in(size);
      const GuardedBytes out(size / 4 * 3);
      std::fill_n(in.text(), size, 'A');
      std::copy(text.begin(), text.end(), in.text());
      const std::size_t consumed = GetParam().kernels.decode(in.text(), size, out.data());
      ASSERT_LE(consumed, size);
      ASSERT_EQ(consumed % 4, 0U);
      EXPECT_TRUE(size < 64 || consumed >= size - 64) << "left the work to the caller";
      const std::size_t known = std::min(consumed / 4 * 3, bytes.size());
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(known),
                             out.data()));
    }
  }
}

TEST_P(Base64, DecodesEveryLengthBack) {
  for (std::size_t size = 0; size <= 300; ++size) {
    const auto bytes = random_bytes(size, size + 1000);
    const std::string text = sodium_text(bytes);
    const GuardedBytes in(text.size());
    std::copy(text.begin(), text.end(), in.text());
    std::vector<std::uint8_t> out(base64_decoded_size(text));
    const auto written = base64_decode({in.text(), text.size()}, out.data(), GetParam().kernels);
    ASSERT_TRUE(written.has_value()) << size;
    out.resize(*written);
    EXPECT_EQ(out, bytes);
  }
}

TEST_P(Base64, NeverConsumesTheGroupOfAForeignCharacter) {
  const std::string good = sodium_text(random_bytes(96, 7));
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      const char c = static_cast<char>(value);
      std::string text = good;
      text[at] = c;
      const bool valid = std::isalnum(value) != 0 || c == '+' || c == '/';
      std::vector<std::uint8_t> out(text.size() / 4 * 3);
      const std::size_t consumed = GetParam().kernels.decode(text.data(), text.size(), out.data());
      if (!valid) {
        ASSERT_LE(consumed, at / 4 * 4) << "character " << value << " at " << at;
      }
      std::vector<std::uint8_t> expected(out.size());
      const std::size_t prefix =
          scalar_base64_kernels().decode(text.data(), consumed, expected.data());
      ASSERT_EQ(prefix, consumed);
      ASSERT_EQ(std::memcmp(out.data(), expected.data(), consumed / 4 * 3), 0);
    }
  }
}

TEST_P(Base64, ReportsTheSameFaultAsThePortablePair) {
  const std::string good = sodium_text(random_bytes(200, 8));
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char c :
         {'=', '-', '_', ' ', '\n', '\0', '\x80', '\xFF', '~', '@', '[', '`', '{', ':', '.', ','}) {
      std::string text = good;
      text[at] = c;
      std::vector<std::uint8_t> out(text.size());
      const auto found = base64_decode(text, out.data(), GetParam().kernels);
      const auto expected = base64_decode(text, out.data());
      ASSERT_EQ(found.has_value(), expected.has_value());
      if (!found) {
        ASSERT_EQ(found.error(), expected.error());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Base64,
                         ::testing::ValuesIn(base64_lines().begin(), base64_lines().end()),
                         [](const auto& line) { return std::string(line.param.name); });

TEST(Base64Choice, ForcedIsaLimitsTheCodec) {
  EXPECT_EQ(base64_kernels(Isa::scalar).decode, scalar_base64_kernels().decode);
  for (const Base64Line& line : base64_lines()) {
    if (!line.is_available()) continue;
    EXPECT_EQ(base64_kernels(line.isa).decode, line.kernels.decode);
    EXPECT_EQ(base64_kernels(line.isa).encode, line.kernels.encode);
  }
}

}  // namespace
}  // namespace tenzro::kernels
