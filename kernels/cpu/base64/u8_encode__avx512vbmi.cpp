#include <cstddef>
#include <cstdint>

#include <immintrin.h>

// After W. Muła and D. Lemire, "Base64 encoding and decoding at almost the speed of a memory copy",
// 2019.

namespace {

constexpr std::size_t kBytes = 48;
constexpr std::size_t kChars = 64;
constexpr __mmask64 kFirst48 = (std::uint64_t{1} << 48U) - 1;

alignas(64) constexpr char kAlphabet[65] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// For each group of three bytes b0 b1 b2: b1 b0 b2 b1, in which multishift finds all four 6-bit
/// fields.
struct Order {
  alignas(64) std::uint8_t of[64] = {};

  constexpr Order() {
    constexpr std::uint8_t kWithin[4] = {1, 0, 2, 1};
    for (std::size_t i = 0; i < 64; ++i)
      of[i] = static_cast<std::uint8_t>(i / 4 * 3 + kWithin[i % 4]);
  }
};

constexpr Order kOrder;

}  // namespace

extern "C" std::size_t tz_u8_encode_b48__avx512vbmi(const std::uint8_t* in, std::size_t n,
                                                    char* out) {
  const __m512i alphabet = _mm512_load_si512(kAlphabet);
  const __m512i order = _mm512_load_si512(kOrder.of);
  const __m512i shifts =
      _mm512_set1_epi64(0x3036242A1016040A);  // bit offsets of the eight fields in a qword
  std::size_t done = 0;
  for (; n - done >= kBytes; done += kBytes) {
    const __m512i bytes = _mm512_maskz_loadu_epi8(kFirst48, in + done);
    const __m512i fields =
        _mm512_multishift_epi64_epi8(shifts, _mm512_permutexvar_epi8(order, bytes));
    _mm512_storeu_si512(out, _mm512_permutexvar_epi8(fields, alphabet));
    out += kChars;
  }
  return done;
}
