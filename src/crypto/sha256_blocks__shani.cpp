// Compiled with -msha -msse4.1: nothing here runs where those are missing. No templates of the
// library: the linker might keep this file's copy of one for everybody.
#include <immintrin.h>

#include "sha256_blocks.hpp"

namespace tenzro::crypto {
namespace {

alignas(64) constexpr std::uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t kRoundsPerStep = 4;
constexpr std::size_t kSteps = 16;

__m128i load(const void* bytes) {
  return _mm_loadu_si128(static_cast<const __m128i*>(bytes));
}

void store(void* bytes, __m128i value) {
  _mm_storeu_si128(static_cast<__m128i*>(bytes), value);
}

/// A message under way. The instructions want the state's words as a b e f and c d g h, the
/// highest first.
struct Lane {
  __m128i abef;
  __m128i cdgh;
  __m128i words[4];  ///< the last sixteen of the schedule, a ring of four steps

  [[gnu::always_inline]] void open(const std::uint32_t* state) {
    const __m128i low = _mm_shuffle_epi32(load(state), 0xB1);       // c d a b
    const __m128i high = _mm_shuffle_epi32(load(state + 4), 0x1B);  // e f g h
    abef = _mm_alignr_epi8(low, high, 8);
    cdgh = _mm_blend_epi16(high, low, 0xF0);
  }

  [[gnu::always_inline]] void close(std::uint32_t* state) const {
    const __m128i low = _mm_shuffle_epi32(abef, 0x1B);
    const __m128i high = _mm_shuffle_epi32(cdgh, 0xB1);
    store(state, _mm_blend_epi16(low, high, 0xF0));
    store(state + 4, _mm_alignr_epi8(high, low, 8));
  }

  /// Four rounds; the first four steps take the block's words, the others extend them.
  [[gnu::always_inline]] void step(std::size_t index, const std::uint8_t* block) {
    __m128i& newest = words[index % 4];
    if (index < 4) {
      const __m128i big_endian = _mm_set_epi64x(0x0C0D0E0F08090A0BLL, 0x0405060700010203LL);
      newest = _mm_shuffle_epi8(load(block + 16 * index), big_endian);
    } else {
      const __m128i last = words[(index + 3) % 4];
      const __m128i seven_back = _mm_alignr_epi8(last, words[(index + 2) % 4], 4);
      newest = _mm_sha256msg1_epu32(newest, words[(index + 1) % 4]);
      newest = _mm_sha256msg2_epu32(_mm_add_epi32(newest, seven_back), last);
    }
    const __m128i sums = _mm_add_epi32(newest, load(kRoundConstants + kRoundsPerStep * index));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sums);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sums, 0x0E));
  }
};

/// One block of each lane, their steps in turn.
template <std::size_t kLanes>
[[gnu::always_inline]] inline void compress_block(Lane (&lanes)[kLanes],
                                                  const std::uint8_t* const (&blocks)[kLanes],
                                                  std::size_t at) {
  __m128i abef[kLanes];
  __m128i cdgh[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    abef[lane] = lanes[lane].abef;
    cdgh[lane] = lanes[lane].cdgh;
  }
#pragma GCC unroll 16
  for (std::size_t index = 0; index < kSteps; ++index) {
#pragma GCC unroll 2
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane].step(index, blocks[lane] + at);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    lanes[lane].abef = _mm_add_epi32(lanes[lane].abef, abef[lane]);
    lanes[lane].cdgh = _mm_add_epi32(lanes[lane].cdgh, cdgh[lane]);
  }
}

}  // namespace

void compress_one(std::uint32_t* state, const std::uint8_t* blocks, std::size_t count) {
  Lane lanes[1];
  const std::uint8_t* const sources[1] = {blocks};
  lanes[0].open(state);
  for (std::size_t i = 0; i < count; ++i) compress_block(lanes, sources, i * kSha256BlockBytes);
  lanes[0].close(state);
}

void compress_pair(std::uint32_t* state_a, const std::uint8_t* blocks_a, std::uint32_t* state_b,
                   const std::uint8_t* blocks_b, std::size_t count) {
  Lane lanes[2];
  const std::uint8_t* const sources[2] = {blocks_a, blocks_b};
  lanes[0].open(state_a);
  lanes[1].open(state_b);
  for (std::size_t i = 0; i < count; ++i) compress_block(lanes, sources, i * kSha256BlockBytes);
  lanes[0].close(state_a);
  lanes[1].close(state_b);
}

}  // namespace tenzro::crypto
