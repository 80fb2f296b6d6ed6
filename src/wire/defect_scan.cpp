#include "defect_scan.hpp"

#include <cstdint>
#include <cstring>

#include "tenzro/base/bytes.hpp"

namespace tenzro::wire {
namespace {

/// Exponent bits of every lane of a word, the lowest exponent bit, and the bit the sum carries to.
struct Lanes {
  std::uint64_t exponent;
  std::uint64_t lowest;
  std::uint64_t carry;
};

constexpr Lanes kF32{0x7F8000007F800000U, 0x0080000000800000U, 0x8000000080000000U};
constexpr Lanes kF16{0x7C007C007C007C00U, 0x0400040004000400U, 0x8000800080008000U};
constexpr Lanes kBf16{0x7F807F807F807F80U, 0x0080008000800080U, 0x8000800080008000U};

std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

bool has_non_finite(const Lanes& lanes, std::span<const std::byte> row) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto sum = [&](std::uint64_t word) { return (word & lanes.exponent) + lanes.lowest; };
  std::uint64_t seen = 0;
  std::size_t at = 0;
  // Four independent sums a step: one alone waits for the one before it, at half the speed.
  for (; row.size() - at >= 4 * kWord; at += 4 * kWord) {
    const std::byte* from = row.data() + at;
    seen |= (sum(load_word(from)) | sum(load_word(from + kWord))) |
            (sum(load_word(from + 2 * kWord)) | sum(load_word(from + 3 * kWord)));
  }
  for (; row.size() - at >= kWord; at += kWord) seen |= sum(load_word(row.data() + at));
  std::uint64_t tail = 0;
  std::memcpy(&tail, row.data() + at, row.size() - at);
  seen |= sum(tail);
  return (seen & lanes.carry) != 0;
}

bool is_non_finite_f16(const std::byte* from) {
  constexpr unsigned kExponent = 0x7C00;
  return (load_u16_le(from) & kExponent) == kExponent;
}

/// Scales are f16 at fixed offsets of each block.
bool has_non_finite_scale(std::span<const std::byte> row, std::size_t block, std::size_t first,
                          std::size_t count) {
  for (std::size_t at = 0; at < row.size(); at += block) {
    for (std::size_t i = 0; i < count; ++i) {
      if (is_non_finite_f16(row.data() + at + first + 2 * i)) return true;
    }
  }
  return false;
}

bool has_minus_128(std::span<const std::byte> row) {
  constexpr std::size_t kBlock = 34;
  constexpr std::uint64_t kOnes = 0x0101010101010101U;
  constexpr std::uint64_t kHighs = kOnes << 7U;
  std::uint64_t seen = 0;
  for (std::size_t at = 0; at < row.size(); at += kBlock) {
    for (std::size_t word = 0; word < 4; ++word) {
      // A byte of `difference` is zero where the value is -128; the classic test for a zero byte.
      const std::uint64_t difference = load_word(row.data() + at + 2 + 8 * word) ^ kHighs;
      seen |= (difference - kOnes) & ~difference & kHighs;
    }
  }
  return seen != 0;
}

}  // namespace

bool has_defect(tensor::WeightType type, std::span<const std::byte> row) {
  const std::size_t block = tensor::block_bytes(type);
  switch (type) {
    case tensor::WeightType::f32:
      return has_non_finite(kF32, row);
    case tensor::WeightType::f16:
      return has_non_finite(kF16, row);
    case tensor::WeightType::bf16:
      return has_non_finite(kBf16, row);
    case tensor::WeightType::q8_0:
      return has_non_finite_scale(row, block, 0, 1) || has_minus_128(row);
    case tensor::WeightType::q4_k:
      return has_non_finite_scale(row, block, 0, 2);
    case tensor::WeightType::q6_k:
      return has_non_finite_scale(row, block, block - 2, 1);
  }
  return true;
}

}  // namespace tenzro::wire
