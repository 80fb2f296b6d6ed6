// Blocks of one to three bits an element.
#include <array>
#include <cstdint>

#include "tenzro/base/bytes.hpp"

#include "f16_field.hpp"
#include "ggml_blocks.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::size_t kHalf = 128;    ///< elements that share 32 bytes of two-bit values
constexpr std::size_t kStripe = 32;   ///< elements that share a shift within those bytes
constexpr std::size_t kQuarter = 16;  ///< elements of a scale
constexpr std::array<std::uint32_t, 5> kPowersOf3{1, 3, 9, 27, 81};

std::uint32_t byte_of(const std::byte* from) {
  return std::to_integer<std::uint32_t>(*from);
}

std::uint32_t two_bits(const std::byte* from, std::size_t index) {
  return (byte_of(from) >> (2 * index)) & 3U;
}

/// Calls set(element, byte, shift, scale): element i of a block of 256, whose two bits stand at
/// `byte` of the low ones, `shift` pairs up, and which scale is its own.
template <typename Set>
void for_two_bits(const Set& set) {
  for (std::size_t i = 0; i < 2 * kHalf; ++i) {
    const std::size_t within = i % kHalf;
    set(i, i / kHalf * kStripe + within % kStripe, within / kStripe, i / kQuarter);
  }
}

/// Six bits: four of bytes 0 to 7 (their high halves are scales 8 to 15), two of bytes 8 to 11.
std::uint32_t q3_k_scale(const std::byte* packed, std::size_t index) {
  const std::uint32_t four = byte_of(packed + index % 8) >> (index < 8 ? 0U : 4U);
  return (four & 15U) | (two_bits(packed + 8 + index % 4, index / 4) << 4U);
}

/// Digit `index` from the front of five ternary ones: a byte is the fraction they make, times 256.
float ternary(std::uint32_t byte, std::size_t index) {
  const std::uint32_t shifted = (byte * kPowersOf3.at(index)) & 0xFFU;
  return static_cast<float>(static_cast<int>((shifted * 3) >> 8U) - 1);
}

}  // namespace

void decode_q2_k(const std::byte* block, float* out) {
  const std::byte* values = block + 16;
  const float d = load_f16(block + 80);
  const float dmin = load_f16(block + 82);
  for_two_bits([&](std::size_t i, std::size_t byte, std::size_t shift, std::size_t scale) {
    const std::uint32_t both = byte_of(block + scale);
    const float step = d * static_cast<float>(both & 15U);
    const float minimum = dmin * static_cast<float>(both >> 4U);
    out[i] = step * static_cast<float>(two_bits(values + byte, shift)) - minimum;
  });
}

void decode_q3_k(const std::byte* block, float* out) {
  const std::byte* values = block + 32;
  const float d = load_f16(block + 108);
  for_two_bits([&](std::size_t i, std::size_t byte, std::size_t shift, std::size_t scale) {
    const float step = d * static_cast<float>(static_cast<int>(q3_k_scale(block + 96, scale)) - 32);
    const std::uint32_t third = (byte_of(block + i % kStripe) >> (i / kStripe)) & 1U;
    const int q = static_cast<int>(two_bits(values + byte, shift) | (third << 2U)) - 4;
    out[i] = step * static_cast<float>(q);
  });
}

void decode_q1_0(const std::byte* block, float* out) {
  const float d = load_f16(block);
  for (std::size_t i = 0; i < kHalf; ++i) {
    const std::uint32_t bit = (byte_of(block + 2 + i / 8) >> (i % 8)) & 1U;
    out[i] = bit == 0 ? -d : d;
  }
}

void decode_q2_0(const std::byte* block, float* out) {
  const float d = load_f16(block);
  for (std::size_t i = 0; i < 2 * kStripe; ++i) {
    const std::uint32_t q = two_bits(block + 2 + i / 4, i % 4);
    out[i] = static_cast<float>(static_cast<int>(q) - 1) * d;
  }
}

void decode_tq1_0(const std::byte* block, float* out) {
  const float d = load_f16(block + 52);

  // Five digits a byte: 32 bytes, then 16; then four digits a byte of the last four.
  struct Run {
    std::size_t bytes, digits;
  };

  const std::byte* at = block;
  for (const Run run : {Run{32, 5}, Run{16, 5}, Run{4, 4}}) {
    for (std::size_t i = 0; i < run.bytes * run.digits; ++i)
      *out++ = ternary(byte_of(at + i % run.bytes), i / run.bytes) * d;
    at += run.bytes;
  }
}

void decode_tq2_0(const std::byte* block, float* out) {
  const float d = load_f16(block + 64);
  for_two_bits([&](std::size_t i, std::size_t byte, std::size_t shift, std::size_t) {
    out[i] = static_cast<float>(static_cast<int>(two_bits(block + byte, shift)) - 1) * d;
  });
}

}  // namespace tenzro::tensor
