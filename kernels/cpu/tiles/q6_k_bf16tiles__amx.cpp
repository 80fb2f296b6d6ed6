#include "kernels/cpu/tiles/bf16_tiles.hpp"
#include "kernels/cpu/tiles/q6_k_values.hpp"

namespace {

struct Panel {
  static const std::uint8_t* tiles(const TzTiles* job, std::size_t panel, std::uint8_t* to) {
    const std::uint8_t* from = job->weights + panel * job->panel_bytes;
    for (std::size_t block = 0; block < job->k / 32; ++block) {
      const std::uint8_t* scales = scales_of<kQ6BlockBytes>(from, block);
      const __m512 d = load_f16(super_of<kQ6BlockBytes>(from, block));
      for (std::size_t half = 0; half < 2; ++half) {
        const __m512 scale = _mm512_mul_ps(d, widen_i8(scales + 16 * half));
        __m512i w[4];
        unpack_q6_k_half(quants_of<kQ6BlockBytes>(from, block) + half * 192, w);
        for (std::size_t g = 0; g < 4; ++g) {
          unpack_four(w[g], scale, _mm512_setzero_ps(),
                      to + block * kTileBytes + half * 512 + 128 * g);
        }
      }
    }
    return to;
  }
};

}  // namespace

extern "C" void TZ_TILES_NAME(tz_q6_k_bf16tiles_m32n32__amx)(const TzTiles* job) {
  run_bf16_tiles<Panel>(job);
}
