#include "kernels/cpu/tiles/int8_tiles.hpp"
#include "kernels/cpu/tiles/q6_k_values.hpp"

namespace {

struct Panel {
  static constexpr std::size_t kParts = 2;  // each half of a block has a scale of its own

  struct Block {
    std::int8_t quants[512];
    float scale[16];
    float first[16];
    float second[16];
  };

  static void unpack(const std::uint8_t* panel, std::size_t blocks, Block* to) {
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::uint8_t* from = quants_of<kQ6BlockBytes>(panel, block);
      for (std::size_t half = 0; half < 2; ++half) {
        __m512i w[4];
        unpack_q6_k_half(from + half * 192, w);
        for (std::size_t g = 0; g < 4; ++g)
          _mm512_store_si512(to[block].quants + half * 256 + g * 64, w[g]);
      }
      const std::uint8_t* scales = scales_of<kQ6BlockBytes>(panel, block);
      _mm512_store_ps(to[block].scale, load_f16(super_of<kQ6BlockBytes>(panel, block)));
      _mm512_store_ps(to[block].first, widen_i8(scales));
      _mm512_store_ps(to[block].second, widen_i8(scales + 16));
    }
  }

  template <std::size_t Rows>
  static void add(const Block& w, const TzQ8Tile& x, const Dots* dots, __m512* sum) {
    const __m512 d = _mm512_load_ps(w.scale);
    const __m512 s0 = _mm512_load_ps(w.first);
    const __m512 s1 = _mm512_load_ps(w.second);
    for (std::size_t r = 0; r < Rows; ++r) {
      // Every value here is an integer below 2^24, so f32 holds s0·first + s1·second exactly.
      const __m512 part = _mm512_mul_ps(dots_of(dots[0][r]), s0);
      const __m512 dot = _mm512_fmadd_ps(dots_of(dots[1][r]), s1, part);
      sum[r] = _mm512_fmadd_ps(dot, _mm512_mul_ps(d, _mm512_set1_ps(x.scale[r])), sum[r]);
    }
  }
};

}  // namespace

extern "C" void TZ_TILES_NAME(tz_q6_k_tiles_m16n16__amx)(const TzTiles* job) {
  run_int8_tiles<Panel>(job);
}
