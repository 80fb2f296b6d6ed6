#include <cstddef>
#include <cstdint>

#include <immintrin.h>

extern "C" void tz_f32_narrow_x32__avx512bf16(const float* x, std::size_t n, std::uint16_t* out) {
  for (std::size_t i = 0; i < n; i += 32) {
    const std::size_t left = n - i < 32 ? n - i : 32;
    const auto present = static_cast<__mmask32>((std::uint64_t{1} << left) - 1);
    const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(present), x + i);
    const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(present >> 16U), x + i + 16);
    // An odd last value brings its pair: the next higher place, which holds zero.
    const auto written =
        static_cast<__mmask32>(present | (present << 1U & ~(present >> 1U) & 0xAAAAAAAAU));
    const __m512i pairs = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high, low));
    _mm512_mask_storeu_epi16(out + i, written, pairs);
  }
}
