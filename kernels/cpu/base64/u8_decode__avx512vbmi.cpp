#include <cstddef>
#include <cstdint>

#include <immintrin.h>

// After W. Muła and D. Lemire, "Base64 encoding and decoding at almost the speed of a memory copy",
// 2019.

namespace {

constexpr std::size_t kChars = 64;
constexpr std::size_t kBytes = 48;
constexpr __mmask64 kFirst48 = (std::uint64_t{1} << 48U) - 1;
constexpr std::uint8_t kInvalid = 0x80;

/// The number of each 7-bit character, kInvalid outside the alphabet.
struct Numbers {
  alignas(64) std::uint8_t of[128] = {};

  constexpr Numbers() {
    constexpr char kAlphabet[65] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::uint8_t& number : of) number = kInvalid;
    for (std::size_t i = 0; i < 64; ++i)
      of[static_cast<std::size_t>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  }
};

/// Of each dword the three low bytes, highest first.
struct Order {
  alignas(64) std::uint8_t of[64] = {};

  constexpr Order() {
    for (std::size_t i = 0; i < kBytes; ++i)
      of[i] = static_cast<std::uint8_t>(i / 3 * 4 + 2 - i % 3);
  }
};

constexpr Numbers kNumbers;
constexpr Order kOrder;

}  // namespace

extern "C" std::size_t tz_u8_decode_b64__avx512vbmi(const char* in, std::size_t n,
                                                    std::uint8_t* out) {
  const __m512i low = _mm512_load_si512(kNumbers.of);
  const __m512i high = _mm512_load_si512(kNumbers.of + 64);
  const __m512i order = _mm512_load_si512(kOrder.of);
  std::size_t done = 0;
  for (; n - done >= kChars; done += kChars) {
    const __m512i text = _mm512_loadu_si512(in + done);
    const __m512i numbers = _mm512_permutex2var_epi8(low, text, high);
    // The lookup ignores a character's top bit, so that one is looked at beside kInvalid.
    if (_mm512_movepi8_mask(_mm512_or_si512(numbers, text)) != 0) break;
    const __m512i pairs = _mm512_maddubs_epi16(numbers, _mm512_set1_epi32(0x01400140));
    const __m512i triples = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x00011000));
    _mm512_mask_storeu_epi8(out, kFirst48, _mm512_permutexvar_epi8(order, triples));
    out += kBytes;
  }
  return done;
}
