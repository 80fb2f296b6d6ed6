#pragma once
/// \file
/// Where a block of 32 along K lies in a panel of quantised weights (kernels/cpu/abi.hpp).
/// Internal linkage: see there.
#include <cstddef>
#include <cstdint>

namespace {

constexpr std::size_t kScaleBytes = 32;  ///< of a block: 16 f16, or 16 pairs of bytes

// q8_0: two blocks share a line of scales.
[[maybe_unused]] const std::uint8_t* q8_0_scales(const std::uint8_t* panel, std::size_t block) {
  return panel + block / 2 * (64 + 2 * 512) + block % 2 * kScaleBytes;
}

[[maybe_unused]] const std::uint8_t* q8_0_quants(const std::uint8_t* panel, std::size_t block) {
  return panel + block / 2 * (64 + 2 * 512) + 64 + block % 2 * 512;
}

// q4_k and q6_k: a super-block is its scales, the scales of its eight blocks, and these.
constexpr std::size_t kSuperHead = 64 + 8 * kScaleBytes;
constexpr std::size_t kQ4BlockBytes = 256;
constexpr std::size_t kQ6BlockBytes = 384;

template <std::size_t BlockBytes>
const std::uint8_t* super_of(const std::uint8_t* panel, std::size_t block) {
  return panel + block / 8 * (kSuperHead + 8 * BlockBytes);
}

template <std::size_t BlockBytes>
const std::uint8_t* scales_of(const std::uint8_t* panel, std::size_t block) {
  return super_of<BlockBytes>(panel, block) + 64 + block % 8 * kScaleBytes;
}

template <std::size_t BlockBytes>
const std::uint8_t* quants_of(const std::uint8_t* panel, std::size_t block) {
  return super_of<BlockBytes>(panel, block) + kSuperHead + block % 8 * BlockBytes;
}

}  // namespace
