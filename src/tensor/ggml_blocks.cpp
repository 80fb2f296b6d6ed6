#include "ggml_blocks.hpp"

#include <array>
#include <cstdint>

#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/dtype.hpp"

#include "f16_field.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::size_t kHalf = 16;  ///< bytes of nibbles in a group of 32 elements

constexpr std::array<float, 16> kIq4{-127.0F, -104.0F, -83.0F, -65.0F, -49.0F, -35.0F,
                                     -22.0F,  -10.0F,  1.0F,   13.0F,  25.0F,  38.0F,
                                     53.0F,   69.0F,   89.0F,  113.0F};
constexpr std::array<float, 16> kE2M1{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                      -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

std::uint32_t byte_of(const std::byte* from) {
  return std::to_integer<std::uint32_t>(*from);
}

std::uint32_t low_nibble(const std::byte* from) {
  return byte_of(from) & 15U;
}

std::uint32_t high_nibble(const std::byte* from) {
  return byte_of(from) >> 4U;
}

/// Calls set(i, nibble) for the 32 elements of a group: i of the low nibbles, then of the high.
template <typename Set>
void for_nibbles(const std::byte* nibbles, const Set& set) {
  for (std::size_t i = 0; i < kHalf; ++i) {
    set(i, low_nibble(nibbles + i));
    set(i + kHalf, high_nibble(nibbles + i));
  }
}

/// As for_nibbles, with the fifth bit of element i from bit i of the word.
template <typename Set>
void for_five_bits(const std::byte* word, const std::byte* nibbles, const Set& set) {
  const std::uint32_t fifth = load_u32_le(word);
  for_nibbles(nibbles, [&](std::size_t i, std::uint32_t nibble) {
    set(i, nibble | (((fifth >> i) & 1U) << 4U));
  });
}

float centred(std::uint32_t value, int centre) {
  return static_cast<float>(static_cast<int>(value) - centre);
}

}  // namespace

void decode_q4_0(const std::byte* block, float* out) {
  const float d = load_f16(block);
  for_nibbles(block + 2, [&](std::size_t i, std::uint32_t q) { out[i] = centred(q, 8) * d; });
}

void decode_q4_1(const std::byte* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  for_nibbles(block + 4,
              [&](std::size_t i, std::uint32_t q) { out[i] = static_cast<float>(q) * d + m; });
}

void decode_q5_0(const std::byte* block, float* out) {
  const float d = load_f16(block);
  for_five_bits(block + 2, block + 6,
                [&](std::size_t i, std::uint32_t q) { out[i] = centred(q, 16) * d; });
}

void decode_q5_1(const std::byte* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  for_five_bits(block + 4, block + 8,
                [&](std::size_t i, std::uint32_t q) { out[i] = static_cast<float>(q) * d + m; });
}

void decode_q5_k(const std::byte* block, float* out) {
  constexpr std::size_t kGroup = 32;
  constexpr std::size_t kGroups = 8;
  const float d = load_f16(block);
  const float dmin = load_f16(block + 2);
  const std::byte* packed = block + 4;
  const std::byte* fifth = block + 16;
  const std::byte* nibbles = block + 48;
  for (std::size_t j = 0; j < kGroups; ++j) {
    // Scales and minimums are packed as those of Q4_K: see q4_k.hpp.
    const std::size_t k = j % 4;
    const std::uint32_t sc = j < 4
                                 ? byte_of(packed + k) & 63U
                                 : low_nibble(packed + k + 8) | ((byte_of(packed + k) >> 6U) << 4U);
    const std::uint32_t m =
        j < 4 ? byte_of(packed + k + 4) & 63U
              : high_nibble(packed + k + 8) | ((byte_of(packed + k + 4) >> 6U) << 4U);
    const float scale = d * static_cast<float>(sc);
    const float minimum = dmin * static_cast<float>(m);
    const std::byte* stripe = nibbles + j / 2 * kGroup;
    for (std::size_t i = 0; i < kGroup; ++i) {
      const std::uint32_t low = j % 2 == 0 ? low_nibble(stripe + i) : high_nibble(stripe + i);
      const std::uint32_t q = low + (((byte_of(fifth + i) >> j) & 1U) << 4U);
      out[j * kGroup + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

void decode_mxfp4(const std::byte* block, float* out) {
  const float d = f8_e8m0_to_f32(std::to_integer<std::uint8_t>(*block));
  for_nibbles(block + 1, [&](std::size_t i, std::uint32_t q) { out[i] = kE2M1[q] * d; });
}

void decode_iq4_nl(const std::byte* block, float* out) {
  const float d = load_f16(block);
  for_nibbles(block + 2, [&](std::size_t i, std::uint32_t q) { out[i] = d * kIq4[q]; });
}

void decode_iq4_xs(const std::byte* block, float* out) {
  const float d = load_f16(block);
  const std::uint32_t high = load_u16_le(block + 2);
  for (std::size_t j = 0; j < 8; ++j) {
    const std::byte* low = block + 4 + j / 2;
    const std::uint32_t bits = j % 2 == 0 ? low_nibble(low) : high_nibble(low);
    const float scale = d * centred(bits | (((high >> (2 * j)) & 3U) << 4U), 32);
    for_nibbles(block + 8 + j * kHalf,
                [&](std::size_t i, std::uint32_t q) { out[j * 32 + i] = scale * kIq4[q]; });
  }
}

}  // namespace tenzro::tensor
