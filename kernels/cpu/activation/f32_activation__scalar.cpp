#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

using F = float;
constexpr std::size_t kLanes = 1;

std::uint32_t bits_of(F x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

F from_bits(std::uint32_t bits) {
  F x = 0.0F;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

F splat(float x) {
  return x;
}

F add(F a, F b) {
  return a + b;
}

F sub(F a, F b) {
  return a - b;
}

F mul(F a, F b) {
  return a * b;
}

F div(F a, F b) {
  return a / b;
}

F fma(F a, F b, F c) {
  return __builtin_fmaf(a, b, c);
}

F larger(F a, F x) {
  return a > x ? a : x;
}

F smaller(F a, F x) {
  return a < x ? a : x;
}

F magnitude(F x) {
  return from_bits(bits_of(x) & 0x7FFFFFFFU);
}

F with_sign_of(F magnitude, F x) {
  return from_bits(bits_of(magnitude) | (bits_of(x) & 0x80000000U));
}

F where_negative(F x, F a, F b) {
  return x < 0.0F ? a : b;
}

struct Halves {
  F first;
  F second;
};

/// 2^n as two factors that are normal numbers, for n + 1.5·2^23 in an f32.
Halves power_of_two(F shifted) {
  const auto n = static_cast<std::int32_t>(bits_of(shifted) - 0x4B400000U);
  const std::int32_t half = n >> 1;
  return {from_bits(static_cast<std::uint32_t>(half + 127) << 23U),
          from_bits(static_cast<std::uint32_t>(n - half + 127) << 23U)};
}

F load(const float* from, std::size_t /*count*/) {
  return *from;
}

void store(float* to, F x, std::size_t /*count*/) {
  *to = x;
}

}  // namespace

#include "kernels/cpu/activation/activation_text.hpp"

extern "C" void tz_f32_activation_x1__scalar(const TzActivation* job) {
  activate(job);
}
