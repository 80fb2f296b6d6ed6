#pragma once
/// \file
/// The rounds of SHA-256 over whole blocks of 64 bytes, with the processor's SHA instructions.
///
/// Rules
///  - Only where `has_sha_instructions`.
///  - A state is `kSha256Words` words. The states of a pair are two; the blocks may be the same.
/// Pure. Thread: any.
#include <cstddef>
#include <cstdint>

namespace tenzro::crypto {

inline constexpr std::size_t kSha256Words = 8;
inline constexpr std::size_t kSha256BlockBytes = 64;

[[nodiscard]] bool has_sha_instructions();

void compress_one(std::uint32_t* state, const std::uint8_t* blocks, std::size_t count);
/// `count` blocks of each.
void compress_pair(std::uint32_t* state_a, const std::uint8_t* blocks_a, std::uint32_t* state_b,
                   const std::uint8_t* blocks_b, std::size_t count);

}  // namespace tenzro::crypto
