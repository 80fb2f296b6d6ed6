#include <cstddef>
#include <cstdint>

#include <immintrin.h>

// After W. Muła and D. Lemire, "Faster Base64 Encoding and Decoding Using AVX2 Instructions", 2018.

namespace {

constexpr std::size_t kChars = 32;
constexpr std::size_t kBytes = 24;

__m256i twice(__m128i lane) {
  return _mm256_broadcastsi128_si256(lane);
}

/// Letters to numbers. False where a character is outside the alphabet: the two tables, by low and
/// high nibble, then share a bit.
bool numbers_of(__m256i text, __m256i* numbers) {
  const __m256i by_low = twice(_mm_setr_epi8(0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
                                             0x11, 0x13, 0x1A, 0x1B, 0x1B, 0x1B, 0x1A));
  const __m256i by_high = twice(_mm_setr_epi8(0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08, 0x10,
                                              0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10));
  const __m256i distances =
      twice(_mm_setr_epi8(0, 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0));
  const __m256i nibble = _mm256_set1_epi8(0x0F);
  const __m256i high = _mm256_and_si256(_mm256_srli_epi32(text, 4), nibble);
  const __m256i low = _mm256_and_si256(text, nibble);
  if (_mm256_testz_si256(_mm256_shuffle_epi8(by_low, low), _mm256_shuffle_epi8(by_high, high)) == 0)
    return false;
  const __m256i is_slash =
      _mm256_cmpeq_epi8(text, _mm256_set1_epi8('/'));  // the one that its high nibble mistakes
  *numbers = _mm256_add_epi8(text, _mm256_shuffle_epi8(distances, _mm256_add_epi8(is_slash, high)));
  return true;
}

/// Four 6-bit numbers a dword -> 24 bytes at the front.
__m256i join(__m256i numbers) {
  const __m256i pairs = _mm256_maddubs_epi16(numbers, _mm256_set1_epi32(0x01400140));
  const __m256i triples = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00011000));
  const __m256i order =
      twice(_mm_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1));
  return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(triples, order),
                                     _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7));
}

}  // namespace

extern "C" std::size_t tz_u8_decode_b32__avx2(const char* in, std::size_t n, std::uint8_t* out) {
  std::size_t done = 0;
  for (; n - done >= kChars; done += kChars) {
    const __m256i text =
        _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(in + done)));
    __m256i numbers;
    if (!numbers_of(text, &numbers)) break;
    const __m256i bytes = join(numbers);
    _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(out)), _mm256_castsi256_si128(bytes));
    _mm_storel_epi64(static_cast<__m128i*>(static_cast<void*>(out + 16)),
                     _mm256_extracti128_si256(bytes, 1));
    out += kBytes;
  }
  return done;
}
