#include "q8_0.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "f16_field.hpp"
#include "finite.hpp"
#include "rounding.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::size_t kValues = 2;
constexpr std::int32_t kMagnitude = 0x7FFFFFFF;

}  // namespace

void encode_q8_0(std::span<const float, kQ80Elements> x, std::span<std::byte, kQ80Bytes> block) {
  if (!all_finite(x)) {
    std::fill(block.begin(), block.end(), std::byte{0});
    store_f16_bits(kF16Nan, &block[kQ80ScaleField]);
    return;
  }
  // Magnitudes of finite values order as their bits do, and integers have a maximum in registers.
  std::int32_t largest_bits = 0;
  for (const float value : x) {
    largest_bits = std::max(largest_bits, std::bit_cast<std::int32_t>(value) & kMagnitude);
  }
  const float scale = std::bit_cast<float>(largest_bits) / 127.0F;
  store_f16_bits(f32_to_f16(scale), &block[kQ80ScaleField]);
  // The values use the scale before it is rounded to f16. Where the scale is so far below the f32
  // range that its inverse is infinite, the f16 scale is zero and the reference stores zeros.
  const float inverse = scale != 0.0F ? 1.0F / scale : 0.0F;
  const float factor = std::isfinite(inverse) ? inverse : 0.0F;
  std::int8_t values[kQ80Elements];
  for (std::size_t i = 0; i < kQ80Elements; ++i) {
    values[i] = static_cast<std::int8_t>(nearest_int_away(x[i] * factor));
  }
  std::memcpy(&block[kValues], values, sizeof values);
}

void decode_q8_0(std::span<const std::byte, kQ80Bytes> block, std::span<float, kQ80Elements> out) {
  const float scale = load_f16(&block[kQ80ScaleField]);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(static_cast<std::int8_t>(block[kValues + i])) * scale;
  }
}

}  // namespace tenzro::tensor
