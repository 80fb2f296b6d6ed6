#include "kernels/cpu/tiles/bf16_tiles.hpp"

namespace {

struct Panel {
  static const std::uint8_t* tiles(const TzTiles* job, std::size_t panel, std::uint8_t* to) {
    const std::uint8_t* from = job->weights + panel * job->panel_bytes;
    const __m512i nibble = _mm512_set1_epi8(15);
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      const std::uint8_t* super = super_of<kQ4BlockBytes>(from, block);
      const std::uint8_t* scales = scales_of<kQ4BlockBytes>(from, block);
      const __m512 d = _mm512_mul_ps(load_f16(super), widen_u8(scales));
      const __m512 m = _mm512_mul_ps(load_f16(super + 32), widen_u8(scales + 16));
      const __m512 minus_m = _mm512_sub_ps(_mm512_setzero_ps(), m);
      const std::uint8_t* quants = quants_of<kQ4BlockBytes>(from, block);
      for (std::size_t pair = 0; pair < 4; ++pair) {
        const __m512i both = _mm512_load_si512(quants + 64 * pair);
        std::uint8_t* out = to + block * kTileBytes + 256 * pair;
        unpack_four(_mm512_and_si512(both, nibble), d, minus_m, out);
        unpack_four(_mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), d, minus_m, out + 128);
      }
    }
    return to;
  }
};

}  // namespace

extern "C" void TZ_TILES_NAME(tz_q4_k_bf16tiles_m32n32__amx)(const TzTiles* job) {
  run_bf16_tiles<Panel>(job);
}
