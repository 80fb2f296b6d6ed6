#include "tenzro/base/base64.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"

namespace tenzro {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// The text's bytes, or the position of its fault.
struct Outcome {
  std::optional<Bytes> bytes;
  std::size_t fault = 0;
};

Outcome decode(std::string_view text, const Base64Kernels& kernels = scalar_base64_kernels()) {
  // Exactly the promised room, so that a sanitizer sees a write beyond it.
  Bytes out(base64_decoded_size(text));
  const auto written = base64_decode(text, out.data(), kernels);
  if (!written) return {std::nullopt, written.error().position};
  out.resize(*written);
  return {out, 0};
}

Bytes random_bytes(Prng& prng, std::size_t size) {
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.next());
  return bytes;
}

/// One bit at a time, from the definition.
std::string naive_encode(const Bytes& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 6) {
    unsigned value = 0;
    for (std::size_t i = bit; i < bit + 6; ++i) {
      const unsigned byte = i / 8 < bytes.size() ? bytes[i / 8] : 0U;
      value = value * 2 + ((byte >> (7 - i % 8)) & 1U);
    }
    text.push_back(kDigits[value]);
  }
  while (text.size() % 4 != 0) text.push_back('=');
  return text;
}

/// Kernels that are as lazy as the contract allows: one group at a time, and only for long input.
std::size_t lazy_encode(const std::uint8_t* in, std::size_t n, char* out) {
  return scalar_base64_kernels().encode(in, n < 12 ? 0 : 3, out);
}

std::size_t lazy_decode(const char* in, std::size_t n, std::uint8_t* out) {
  return scalar_base64_kernels().decode(in, n < 16 ? 0 : 4, out);
}

/// Kernels that use all the room they are given before they give up.
std::size_t messy_encode(const std::uint8_t* /*in*/, std::size_t n, char* out) {
  std::fill_n(out, n / 3 * 4, '!');
  return 0;
}

std::size_t messy_decode(const char* /*in*/, std::size_t n, std::uint8_t* out) {
  std::fill_n(out, n / 4 * 3, std::uint8_t{0xEE});
  return 0;
}

constexpr Base64Kernels kLazy{.encode = lazy_encode, .decode = lazy_decode};
constexpr Base64Kernels kMessy{.encode = messy_encode, .decode = messy_decode};

struct Example {
  const char* plain;
  const char* text;
};

class Rfc4648 : public testing::TestWithParam<Example> {};

TEST_P(Rfc4648, EncodesAndDecodes) {
  const auto plain = as_u8(std::string_view(GetParam().plain));
  EXPECT_EQ(base64_encode(plain), GetParam().text);
  EXPECT_EQ(base64_encoded_size(plain.size()), std::string_view(GetParam().text).size());
  EXPECT_EQ(decode(GetParam().text).bytes, Bytes(plain.begin(), plain.end()));
}

INSTANTIATE_TEST_SUITE_P(Section10, Rfc4648,
                         testing::Values(Example{"", ""}, Example{"f", "Zg=="},
                                         Example{"fo", "Zm8="}, Example{"foo", "Zm9v"},
                                         Example{"foob", "Zm9vYg=="}, Example{"fooba", "Zm9vYmE="},
                                         Example{"foobar", "Zm9vYmFy"}));

TEST(Base64, AgreesWithTheDefinitionForEveryLengthAndAnyKernel) {
  Prng prng(1);
  for (std::size_t size = 0; size < 200; ++size) {
    const Bytes bytes = random_bytes(prng, size);
    const std::string text = naive_encode(bytes);
    for (const Base64Kernels& kernels : {scalar_base64_kernels(), kLazy, kMessy}) {
      EXPECT_EQ(base64_encode(bytes, kernels), text);
      EXPECT_EQ(decode(text, kernels).bytes, bytes);
    }
    EXPECT_EQ(base64_decoded_size(text), size);
  }
}

TEST(Base64, EveryCharacterOutsideTheAlphabetIsRefusedWhereItStands) {
  const std::string good = naive_encode(Bytes(30, 0x5A));
  for (int c = 0; c < 256; ++c) {
    const char bad = static_cast<char>(c);
    const bool is_digit = (bad >= 'A' && bad <= 'Z') || (bad >= 'a' && bad <= 'z') ||
                          (bad >= '0' && bad <= '9') || bad == '+' || bad == '/';
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string text = good;
      text[at] = bad;
      // '=' at the very end is padding of a shorter text, whose unused bits are not zero here.
      const bool is_padding = bad == '=' && at + 1 == text.size();
      const Outcome outcome = decode(text);
      ASSERT_EQ(outcome.bytes.has_value(), is_digit) << c << " at " << at;
      if (!is_digit) {
        ASSERT_EQ(outcome.fault, is_padding ? at - 1 : at) << c;
      }
      ASSERT_EQ(decode(text, kLazy).fault, outcome.fault) << c << " at " << at;
    }
  }
}

struct Fault {
  const char* text;
  std::size_t position;
};

class Base64Refuses : public testing::TestWithParam<Fault> {};

TEST_P(Base64Refuses, AtThePosition) {
  const Outcome outcome = decode(GetParam().text);
  ASSERT_FALSE(outcome.bytes.has_value());
  EXPECT_EQ(outcome.fault, GetParam().position);
}

INSTANTIATE_TEST_SUITE_P(MissingPadding, Base64Refuses,
                         testing::Values(Fault{"Z", 1}, Fault{"Zg", 2}, Fault{"Zm8", 3},
                                         Fault{"Zm9vY", 5}));
INSTANTIATE_TEST_SUITE_P(ShortOrMisplacedPadding, Base64Refuses,
                         testing::Values(Fault{"=", 0}, Fault{"==", 0}, Fault{"====", 0},
                                         Fault{"Z===", 1}, Fault{"Zg=", 2}, Fault{"Zg=v", 2},
                                         Fault{"Zg==Zg==", 2}, Fault{"Zm9v====", 4},
                                         Fault{"Zm9v=", 4}, Fault{"Zg===", 2}));
INSTANTIATE_TEST_SUITE_P(UnusedBits, Base64Refuses,
                         testing::Values(Fault{"Zh==", 1}, Fault{"Zv==", 1}, Fault{"Zm9=", 2},
                                         Fault{"Zm9vZm8/Zh==", 9}));
INSTANTIATE_TEST_SUITE_P(WhiteSpace, Base64Refuses,
                         testing::Values(Fault{" Zm9v", 0}, Fault{"Zm9v\n", 4}, Fault{"Zm 9", 2},
                                         Fault{"Zm9v\r\n\r\n", 4}));
INSTANTIATE_TEST_SUITE_P(UrlAlphabet, Base64Refuses,
                         testing::Values(Fault{"-m9v", 0}, Fault{"Zm9_", 3}));

TEST(Base64, OneTextForEachByteStringSoThatMutatedTextNeverDecodesToTheSame) {
  Prng prng(7);
  for (int round = 0; round < 2000; ++round) {
    const Bytes bytes = random_bytes(prng, 1 + prng.below(40));
    std::string text = base64_encode(bytes);
    const std::size_t at = prng.below(text.size());
    const char other = static_cast<char>(prng.next());
    if (text[at] == other) continue;
    text[at] = other;
    const Outcome outcome = decode(text);
    if (outcome.bytes) {
      EXPECT_NE(*outcome.bytes, bytes) << text;
      EXPECT_EQ(base64_encode(*outcome.bytes), text);
    } else {
      EXPECT_LE(outcome.fault, text.size());
    }
  }
}

}  // namespace
}  // namespace tenzro
