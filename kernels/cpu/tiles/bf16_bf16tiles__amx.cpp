#include "kernels/cpu/tiles/bf16_tiles.hpp"

namespace {

struct Panel {
  static const std::uint8_t* tiles(const TzTiles* job, std::size_t panel, std::uint8_t* to) {
    const std::uint8_t* from = job->weights + panel * job->panel_bytes;
    if (job->k % 32 == 0) return from;
    // Zeros behind the last value: what lies there belongs to the next panel.
    const std::size_t whole = (job->k + 31) / 32 * kTileBytes;
    std::size_t at = 0;
    for (; at < job->panel_bytes; at += 64)
      _mm512_store_si512(to + at, _mm512_load_si512(from + at));
    for (; at < whole; at += 64) _mm512_store_si512(to + at, _mm512_setzero_si512());
    return to;
  }
};

}  // namespace

extern "C" void TZ_TILES_NAME(tz_bf16_bf16tiles_m32n32__amx)(const TzTiles* job) {
  run_bf16_tiles<Panel>(job);
}
