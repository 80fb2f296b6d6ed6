#include "kernels/cpu/tiles/bf16_tiles.hpp"

namespace {

struct Panel {
  static const std::uint8_t* tiles(const TzTiles* job, std::size_t panel, std::uint8_t* to) {
    const std::uint8_t* from = job->weights + panel * job->panel_bytes;
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      const __m512 d = load_f16(q8_0_scales(from, block));
      const std::uint8_t* quants = q8_0_quants(from, block);
      for (std::size_t g = 0; g < 8; ++g) {
        const __m512i bytes = _mm512_xor_si512(_mm512_load_si512(quants + 64 * g), offset);
        unpack_four(bytes, d, _mm512_setzero_ps(), to + block * kTileBytes + 128 * g);
      }
    }
    return to;
  }
};

}  // namespace

extern "C" void TZ_TILES_NAME(tz_q8_0_bf16tiles_m32n32__amx)(const TzTiles* job) {
  run_bf16_tiles<Panel>(job);
}
