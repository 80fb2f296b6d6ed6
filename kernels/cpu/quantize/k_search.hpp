#pragma once
/// \file
/// What the searches of Q4_K and Q6_K share. They give the bytes of tensor::encode_row with many
/// groups side by side: each lane works on one group in the scalar code's own order of operations.
/// Read src/tensor/q4_k.cpp and q6_k.cpp for what the steps are; these files say only how they are
/// laid out. Included once an ISA, after its `Lanes`; everything here has internal linkage.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

namespace {

using F = Lanes::F;

constexpr int kBlock = 256;
constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to integers

std::uint16_t half_of(float x) {
  return static_cast<std::uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
}

/// f16, as stored and read back.
float stored(float x, unsigned char* field) {
  const std::uint16_t bits = half_of(x);
  std::memcpy(field, &bits, sizeof bits);
  return _cvtsh_ss(bits);
}

int nearest(float x) {
  const float sum = x + kMagic;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &sum, sizeof bits);
  return static_cast<int>(bits & 0x007FFFFFU) - 0x00400000;
}

F cut_and_rounded(F x, F low, F high) {
  return Lanes::rounded(Lanes::smaller(Lanes::larger(x, low), high));
}

bool is_finite(const float* x) {
  unsigned bad = 0;
  for (int i = 0; i < kBlock; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, x + i, sizeof bits);
    bad |= static_cast<unsigned>((bits & 0x7F800000U) == 0x7F800000U);
  }
  return bad == 0;
}

void store_nan(unsigned char* field) {
  field[0] = 0x00;
  field[1] = 0x7E;
}

}  // namespace
