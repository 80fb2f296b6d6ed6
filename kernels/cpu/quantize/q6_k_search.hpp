#pragma once
/// \file
/// Q6_K blocks, sixteen groups of 16 each: see k_search.hpp.
#include "kernels/cpu/quantize/k_search.hpp"

namespace {

constexpr int kQ6Groups = 16;
constexpr int kQ6Elements = 16;
constexpr int kQ6Bytes = 210;
constexpr int kQ6Batches = kQ6Groups / Lanes::kCount;

struct Q6Fit {
  F elements[kQ6Elements];
  F scale;
  F values[kQ6Elements];
};

F q6_quantize(F x) {
  return cut_and_rounded(x, Lanes::all(-32), Lanes::all(31));
}

void q6_sums(const F* x, const F* squares, const F* cubes, F inverse, F* xl, F* l2) {
  F sum_xl = Lanes::all(0);
  F sum_l2 = Lanes::all(0);
  for (int i = 0; i < kQ6Elements; ++i) {
    const F value = q6_quantize(Lanes::mul(inverse, x[i]));
    sum_xl = Lanes::add(sum_xl, Lanes::mul(cubes[i], value));
    sum_l2 = Lanes::add(sum_l2, Lanes::mul(Lanes::mul(squares[i], value), value));
  }
  *xl = sum_xl;
  *l2 = sum_l2;
}

void q6_fit(Q6Fit* fit) {
  const F zero = Lanes::all(0);
  const F* x = fit->elements;
  F magnitude = zero;
  F largest = zero;
  F squares[kQ6Elements];
  F cubes[kQ6Elements];
  for (int i = 0; i < kQ6Elements; ++i) {
    const F size = Lanes::choose(Lanes::less(x[i], zero), Lanes::mul(x[i], Lanes::all(-1)), x[i]);
    const Lanes::Mask is_larger = Lanes::less(magnitude, size);
    magnitude = Lanes::choose(is_larger, size, magnitude);
    largest = Lanes::choose(is_larger, x[i], largest);
    squares[i] = Lanes::mul(x[i], x[i]);
    cubes[i] = Lanes::mul(squares[i], x[i]);
  }
  F best_inverse = Lanes::div(Lanes::all(-32), largest);
  F xl;
  F l2;
  q6_sums(x, squares, cubes, best_inverse, &xl, &l2);
  fit->scale = Lanes::choose(Lanes::equal(l2, zero), zero, Lanes::div(xl, l2));
  F best_score = Lanes::mul(fit->scale, xl);
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const F inverse = Lanes::div(Lanes::all(-32.0F - 0.1F * static_cast<float>(step)), largest);
    q6_sums(x, squares, cubes, inverse, &xl, &l2);
    const Lanes::Mask is_better = Lanes::both(
        Lanes::less(zero, l2), Lanes::less(Lanes::mul(best_score, l2), Lanes::mul(xl, xl)));
    fit->scale = Lanes::choose(is_better, Lanes::div(xl, l2), fit->scale);
    best_score = Lanes::choose(is_better, Lanes::mul(fit->scale, xl), best_score);
    best_inverse = Lanes::choose(is_better, inverse, best_inverse);
  }
  const F least = Lanes::all(1e-15F);
  const Lanes::Mask is_zero = Lanes::less(magnitude, least);
  fit->scale = Lanes::choose(is_zero, zero, fit->scale);
  for (int i = 0; i < kQ6Elements; ++i) {
    fit->values[i] =
        Lanes::choose(is_zero, Lanes::all(-32), q6_quantize(Lanes::mul(best_inverse, x[i])));
  }
}

void q6_pack(const unsigned char* values, unsigned char* block) {
  for (int half = 0; half < 2; ++half) {
    const unsigned char* from = values + half * 128;
    unsigned char* low = block + half * 64;
    unsigned char* high = block + 128 + half * 32;
    for (int l = 0; l < 32; ++l) {
      const unsigned a = from[l];
      const unsigned b = from[l + 32];
      const unsigned c = from[l + 64];
      const unsigned d = from[l + 96];
      low[l] = static_cast<unsigned char>((a & 15U) | ((c & 15U) << 4U));
      low[l + 32] = static_cast<unsigned char>((b & 15U) | ((d & 15U) << 4U));
      high[l] = static_cast<unsigned char>((a >> 4U) | ((b >> 4U) << 2U) | ((c >> 4U) << 4U) |
                                           ((d >> 4U) << 6U));
    }
  }
}

float size_of(float x) {
  return x < 0 ? -x : x;
}

void q6_block(const float* x, unsigned char* block) {
  std::memset(block, 0, kQ6Bytes);
  if (!is_finite(x)) return store_nan(block + 208);
  int at[Lanes::kCount];
  for (int lane = 0; lane < Lanes::kCount; ++lane) at[lane] = lane * kQ6Elements;
  const Lanes::Index index = Lanes::index(at);
  Q6Fit fits[kQ6Batches];
  float scales[kQ6Groups];
  for (int batch = 0; batch < kQ6Batches; ++batch) {
    const float* from = x + batch * Lanes::kCount * kQ6Elements;
    for (int i = 0; i < kQ6Elements; ++i) {
      fits[batch].elements[i] = Lanes::gather(from + i, index);
    }
    q6_fit(&fits[batch]);
    Lanes::store(fits[batch].scale, scales + batch * Lanes::kCount);
  }
  float largest = 0;
  for (const float scale : scales) {
    if (size_of(scale) > size_of(largest)) largest = scale;
  }
  if (size_of(largest) < 1e-15F) return;
  const float inverse = -128.0F / largest;
  const float d = stored(1.0F / inverse, block + 208);
  for (int j = 0; j < kQ6Groups; ++j) {
    const int whole = nearest(inverse * scales[j]);
    const auto on_grid = static_cast<std::int8_t>(whole < 127 ? whole : 127);
    block[192 + j] = static_cast<unsigned char>(on_grid);
    scales[j] = d * static_cast<float>(on_grid);
  }
  unsigned char values[kBlock];
  for (int batch = 0; batch < kQ6Batches; ++batch) {
    const F scale = Lanes::load(scales + batch * Lanes::kCount);
    const Lanes::Mask is_kept = Lanes::equal(scale, Lanes::all(0));
    unsigned char bytes[kQ6Elements][Lanes::kCount];
    for (int i = 0; i < kQ6Elements; ++i) {
      const F value = q6_quantize(Lanes::div(fits[batch].elements[i], scale));
      const F kept = Lanes::choose(is_kept, fits[batch].values[i], value);
      Lanes::store_bytes(Lanes::add(kept, Lanes::all(32)), bytes[i]);
    }
    unsigned char* to = values + batch * Lanes::kCount * kQ6Elements;
    for (int lane = 0; lane < Lanes::kCount; ++lane) {
      for (int i = 0; i < kQ6Elements; ++i) to[lane * kQ6Elements + i] = bytes[i][lane];
    }
  }
  q6_pack(values, block);
}

void q6_row(const float* x, std::size_t blocks, unsigned char* out) {
  for (std::size_t b = 0; b < blocks; ++b) q6_block(x + b * kBlock, out + b * kQ6Bytes);
}

}  // namespace
