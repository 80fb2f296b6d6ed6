#include "kernels/cpu/tiles/int8_tiles.hpp"

namespace {

struct Panel {
  static constexpr std::size_t kParts = 1;

  struct Block {
    std::int8_t quants[512];
    float scale[16];
    float minus_minimum[16];
  };

  static void unpack(const std::uint8_t* panel, std::size_t blocks, Block* to) {
    const __m512i nibble = _mm512_set1_epi8(15);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::uint8_t* from = quants_of<kQ4BlockBytes>(panel, block);
      for (std::size_t pair = 0; pair < 4; ++pair) {
        const __m512i both = _mm512_load_si512(from + 64 * pair);
        std::int8_t* quants = to[block].quants + 128 * pair;
        _mm512_store_si512(quants, _mm512_and_si512(both, nibble));
        _mm512_store_si512(quants + 64, _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble));
      }
      const std::uint8_t* super = super_of<kQ4BlockBytes>(panel, block);
      const std::uint8_t* scales = scales_of<kQ4BlockBytes>(panel, block);
      const __m512 m = _mm512_mul_ps(load_f16(super + 32), widen_u8(scales + 16));
      _mm512_store_ps(to[block].scale, _mm512_mul_ps(load_f16(super), widen_u8(scales)));
      _mm512_store_ps(to[block].minus_minimum, _mm512_sub_ps(_mm512_set1_ps(-0.0F), m));
    }
  }

  template <std::size_t Rows>
  static void add(const Block& w, const TzQ8Tile& x, const Dots* dots, __m512* sum) {
    const __m512 d = _mm512_load_ps(w.scale);
    const __m512 minus_m = _mm512_load_ps(w.minus_minimum);
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m512 dx = _mm512_set1_ps(x.scale[r]);
      sum[r] = _mm512_fmadd_ps(dots_of(dots[0][r]), _mm512_mul_ps(d, dx), sum[r]);
      sum[r] = _mm512_fmadd_ps(_mm512_set1_ps(x.sum[r]), _mm512_mul_ps(minus_m, dx), sum[r]);
    }
  }
};

}  // namespace

extern "C" void TZ_TILES_NAME(tz_q4_k_tiles_m16n16__amx)(const TzTiles* job) {
  run_int8_tiles<Panel>(job);
}
