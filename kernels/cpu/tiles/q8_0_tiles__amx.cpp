#include "kernels/cpu/tiles/int8_tiles.hpp"

namespace {

struct Panel {
  static constexpr std::size_t kParts = 1;

  struct Block {
    std::int8_t quants[512];
    float scale[16];
  };

  static void unpack(const std::uint8_t* panel, std::size_t blocks, Block* to) {
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::uint8_t* from = q8_0_quants(panel, block);
      for (std::size_t g = 0; g < 512; g += 64) {
        _mm512_store_si512(to[block].quants + g,
                           _mm512_xor_si512(_mm512_load_si512(from + g), offset));
      }
      _mm512_store_ps(to[block].scale, load_f16(q8_0_scales(panel, block)));
    }
  }

  template <std::size_t Rows>
  static void add(const Block& w, const TzQ8Tile& x, const Dots* dots, __m512* sum) {
    const __m512 d = _mm512_load_ps(w.scale);
    for (std::size_t r = 0; r < Rows; ++r) {
      const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(x.scale[r]));
      sum[r] = _mm512_fmadd_ps(dots_of(dots[0][r]), scale, sum[r]);
    }
  }
};

}  // namespace

extern "C" void TZ_TILES_NAME(tz_q8_0_tiles_m16n16__amx)(const TzTiles* job) {
  run_int8_tiles<Panel>(job);
}
