#include <cstddef>
#include <cstdint>

#include <immintrin.h>

// After W. Muła and D. Lemire, "Faster Base64 Encoding and Decoding Using AVX2 Instructions", 2018.

namespace {

constexpr std::size_t kBytes = 24;
constexpr std::size_t kRead = 28;  // two loads of 16, 12 apart
constexpr std::size_t kChars = 32;

__m256i load_two(const std::uint8_t* in) {
  const __m128i low = _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(in)));
  const __m128i high =
      _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(in + 12)));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/// Three bytes a dword -> four 6-bit numbers a dword, one a byte.
__m256i split(__m256i in) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10));
  const __m256i bytes = _mm256_shuffle_epi8(in, order);
  const __m256i a_and_c = _mm256_and_si256(bytes, _mm256_set1_epi32(0x0FC0FC00));
  const __m256i b_and_d = _mm256_and_si256(bytes, _mm256_set1_epi32(0x003F03F0));
  return _mm256_or_si256(_mm256_mulhi_epu16(a_and_c, _mm256_set1_epi32(0x04000040)),
                         _mm256_mullo_epi16(b_and_d, _mm256_set1_epi32(0x01000010)));
}

/// Adds to each number the distance of its range of the alphabet.
__m256i letters(__m256i numbers) {
  const __m256i distances = _mm256_broadcastsi128_si256(_mm_setr_epi8(
      'A', 'a' - 26, -4, -4, -4, -4, -4, -4, -4, -4, -4, -4, '+' - 62, '/' - 63, 0, 0));
  // 0 for A-Z, 1 for a-z, 2..11 for digits, 12 for +, 13 for /.
  const __m256i beyond_lower = _mm256_subs_epu8(numbers, _mm256_set1_epi8(51));
  const __m256i is_not_upper = _mm256_cmpgt_epi8(numbers, _mm256_set1_epi8(25));
  return _mm256_add_epi8(
      numbers, _mm256_shuffle_epi8(distances, _mm256_sub_epi8(beyond_lower, is_not_upper)));
}

}  // namespace

extern "C" std::size_t tz_u8_encode_b24__avx2(const std::uint8_t* in, std::size_t n, char* out) {
  std::size_t done = 0;
  for (; n - done >= kRead; done += kBytes) {
    _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(out)),
                        letters(split(load_two(in + done))));
    out += kChars;
  }
  return done;
}
