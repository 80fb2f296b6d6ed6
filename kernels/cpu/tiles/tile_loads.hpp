#pragma once
/// \file
/// What the tile kernels of both profiles share: the tile layer, its shape, and loads from a panel.
/// Internal linkage: see kernels/cpu/abi.hpp.
#include <immintrin.h>

#include "kernels/cpu/abi.hpp"
#include "kernels/cpu/matmul/panel_layout.hpp"
#ifdef TZ_EMULATED_TILES
#include "kernels/tile_layer_emulated.hpp"
#else
#include "kernels/cpu/tiles/tile_layer__amx.hpp"
#endif

namespace {

constexpr std::size_t kTileRows = 16;
constexpr std::size_t kPanel = 16;

/// 16 f16 as f32.
[[maybe_unused]] __m512 load_f16(const std::uint8_t* from) {
  return _mm512_cvtph_ps(
      _mm256_load_si256(static_cast<const __m256i*>(static_cast<const void*>(from))));
}

[[maybe_unused]] __m128i load_128(const std::uint8_t* from) {
  return _mm_load_si128(static_cast<const __m128i*>(static_cast<const void*>(from)));
}

/// 16 unsigned bytes as f32.
[[maybe_unused]] __m512 widen_u8(const std::uint8_t* bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(bytes)));
}

/// 16 signed bytes as f32.
[[maybe_unused]] __m512 widen_i8(const std::uint8_t* bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(bytes)));
}

}  // namespace
