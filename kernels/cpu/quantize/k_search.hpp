#pragma once
/// \file
/// Q4_K and Q6_K blocks with the bytes of tensor::encode_row, many groups side by side: each lane
/// works on one group in the scalar code's own order of operations. Read src/tensor/q4_k.cpp and
/// q6_k.cpp for what the steps are; this file says only how they are laid out.
/// Included once an ISA, after its `Lanes`; everything here has internal linkage.
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

// ---- Q4_K: eight groups of 32

constexpr int kQ4Groups = 8;
constexpr int kQ4Elements = 32;
constexpr int kQ4Bytes = 144;
constexpr int kQ4AtOnce = Lanes::kCount / kQ4Groups;  // blocks

struct Q4Fit {
  F scale;
  F minimum;
  F values[kQ4Elements];
};

struct Q4Sums {
  F l;
  F l2;
  F xl;
};

F q4_error(const F* x, const F* weights, F scale, F minimum, const F* values) {
  F error = Lanes::all(0);
  for (int i = 0; i < kQ4Elements; ++i) {
    const F difference = Lanes::sub(Lanes::add(Lanes::mul(scale, values[i]), minimum), x[i]);
    error = Lanes::add(error, Lanes::mul(weights[i], Lanes::mul(difference, difference)));
  }
  return error;
}

Q4Sums q4_quantize(const F* x, const F* weights, F inverse, F minimum, F* values) {
  const F zero = Lanes::all(0);
  const F top = Lanes::all(15);
  Q4Sums sums{zero, zero, zero};
  for (int i = 0; i < kQ4Elements; ++i) {
    const F value = cut_and_rounded(Lanes::mul(inverse, Lanes::sub(x[i], minimum)), zero, top);
    values[i] = value;
    const F weighted = Lanes::mul(weights[i], value);
    sums.l = Lanes::add(sums.l, weighted);
    sums.l2 = Lanes::add(sums.l2, Lanes::mul(weighted, value));
    sums.xl = Lanes::add(sums.xl, Lanes::mul(weighted, x[i]));
  }
  return sums;
}

void q4_fit(const F* x, Q4Fit* best) {
  const F zero = Lanes::all(0);
  F low = x[0];
  F high = x[0];
  F squares = zero;
  for (int i = 0; i < kQ4Elements; ++i) {
    low = Lanes::choose(Lanes::less(x[i], low), x[i], low);
    high = Lanes::choose(Lanes::less(high, x[i]), x[i], high);
    squares = Lanes::add(squares, Lanes::mul(x[i], x[i]));
  }
  best->minimum = Lanes::choose(Lanes::less(zero, low), zero, low);
  const Lanes::Mask is_flat = Lanes::equal(high, best->minimum);
  const F flat_minimum = best->minimum;
  const F mean = Lanes::root(Lanes::div(squares, Lanes::all(kQ4Elements)));
  F weights[kQ4Elements];
  F sum = zero;
  F sum_x = zero;
  for (int i = 0; i < kQ4Elements; ++i) {
    const F size = Lanes::choose(Lanes::less(x[i], zero), Lanes::mul(x[i], Lanes::all(-1)), x[i]);
    weights[i] = Lanes::add(mean, size);
    sum = Lanes::add(sum, weights[i]);
    sum_x = Lanes::add(sum_x, Lanes::mul(weights[i], x[i]));
  }
  const F inverse = Lanes::div(Lanes::all(15), Lanes::sub(high, best->minimum));
  best->scale = Lanes::div(Lanes::all(1), inverse);
  static_cast<void>(q4_quantize(x, weights, inverse, best->minimum, best->values));
  F best_error = q4_error(x, weights, best->scale, best->minimum, best->values);
  F trial[kQ4Elements];
  for (int step = 0; step <= 20; ++step) {
    const float levels = -1.0F + 0.1F * static_cast<float>(step) + 15.0F;
    const F at = Lanes::div(Lanes::all(levels), Lanes::sub(high, best->minimum));
    const Q4Sums sums = q4_quantize(x, weights, at, best->minimum, trial);
    const F determinant = Lanes::sub(Lanes::mul(sum, sums.l2), Lanes::mul(sums.l, sums.l));
    const F scale =
        Lanes::div(Lanes::sub(Lanes::mul(sum, sums.xl), Lanes::mul(sum_x, sums.l)), determinant);
    const F minimum = Lanes::div(
        Lanes::sub(Lanes::mul(sums.l2, sum_x), Lanes::mul(sums.l, sums.xl)), determinant);
    const Lanes::Mask is_above = Lanes::less(zero, minimum);
    const F trial_scale = Lanes::choose(is_above, Lanes::div(sums.xl, sums.l2), scale);
    const F trial_minimum = Lanes::choose(is_above, zero, minimum);
    const F error = q4_error(x, weights, trial_scale, trial_minimum, trial);
    const Lanes::Mask is_better =
        Lanes::both(Lanes::less(zero, determinant), Lanes::less(error, best_error));
    if (Lanes::none(is_better)) continue;
    best_error = Lanes::choose(is_better, error, best_error);
    best->scale = Lanes::choose(is_better, trial_scale, best->scale);
    best->minimum = Lanes::choose(is_better, trial_minimum, best->minimum);
    for (int i = 0; i < kQ4Elements; ++i) {
      best->values[i] = Lanes::choose(is_better, trial[i], best->values[i]);
    }
  }
  best->scale = Lanes::choose(is_flat, zero, best->scale);
  best->minimum = Lanes::choose(is_flat, flat_minimum, best->minimum);
  for (int i = 0; i < kQ4Elements; ++i) {
    best->values[i] = Lanes::choose(is_flat, zero, best->values[i]);
  }
}

unsigned on_grid(float value) {
  const unsigned narrowed = static_cast<unsigned>(nearest(value)) & 0xFFU;
  return narrowed < 63U ? narrowed : 63U;
}

/// The block's f16 scales and packed grid from its groups' fits; what the groups are stored as
/// comes back in `scales` and `drops`.
void q4_grid(float* scales, float* drops, unsigned char* block) {
  float scale_max = 0;
  float drop_max = 0;
  for (int j = 0; j < kQ4Groups; ++j) {
    if (scale_max < scales[j]) scale_max = scales[j];
    if (drop_max < drops[j]) drop_max = drops[j];
  }
  const float inverse_scale = scale_max > 0 ? 63.0F / scale_max : 0.0F;
  const float inverse_drop = drop_max > 0 ? 63.0F / drop_max : 0.0F;
  const float d = stored(scale_max / 63.0F, block);
  const float m = stored(drop_max / 63.0F, block + 2);
  unsigned on_scale[kQ4Groups];
  unsigned on_drop[kQ4Groups];
  for (int j = 0; j < kQ4Groups; ++j) {
    on_scale[j] = on_grid(inverse_scale * scales[j]);
    on_drop[j] = on_grid(inverse_drop * drops[j]);
    scales[j] = d * static_cast<float>(on_scale[j]);
    drops[j] = m * static_cast<float>(on_drop[j]);
  }
  for (int j = 0; j < 4; ++j) {
    const unsigned s4 = on_scale[j + 4];
    const unsigned m4 = on_drop[j + 4];
    block[4 + j] = static_cast<unsigned char>(on_scale[j] | ((s4 >> 4U) << 6U));
    block[8 + j] = static_cast<unsigned char>(on_drop[j] | ((m4 >> 4U) << 6U));
    block[12 + j] = static_cast<unsigned char>((s4 & 15U) | ((m4 & 15U) << 4U));
  }
}

/// At most kQ4AtOnce blocks.
void q4_blocks(const float* x, int count, unsigned char* out) {
  int at[Lanes::kCount];
  for (int lane = 0; lane < Lanes::kCount; ++lane) {
    const int block = lane / kQ4Groups;
    at[lane] = (block < count ? block : 0) * kBlock + lane % kQ4Groups * kQ4Elements;
  }
  const Lanes::Index index = Lanes::index(at);
  F elements[kQ4Elements];
  for (int i = 0; i < kQ4Elements; ++i) elements[i] = Lanes::gather(x + i, index);
  Q4Fit fit;
  q4_fit(elements, &fit);
  float scales[Lanes::kCount];
  float drops[Lanes::kCount];
  Lanes::store(fit.scale, scales);
  Lanes::store(Lanes::mul(fit.minimum, Lanes::all(-1)), drops);
  for (int b = 0; b < count; ++b) {
    q4_grid(scales + b * kQ4Groups, drops + b * kQ4Groups, out + b * kQ4Bytes);
  }
  const F scale = Lanes::load(scales);
  const F drop = Lanes::load(drops);
  const Lanes::Mask is_kept = Lanes::equal(scale, Lanes::all(0));
  unsigned char bytes[kQ4Elements][Lanes::kCount];
  for (int i = 0; i < kQ4Elements; ++i) {
    const F value = cut_and_rounded(Lanes::div(Lanes::add(elements[i], drop), scale), Lanes::all(0),
                                    Lanes::all(15));
    Lanes::store_bytes(Lanes::choose(is_kept, fit.values[i], value), bytes[i]);
  }
  for (int b = 0; b < count; ++b) {
    unsigned char* to = out + b * kQ4Bytes + 16;
    for (int pair = 0; pair < kQ4Groups / 2; ++pair) {
      const int low = b * kQ4Groups + 2 * pair;
      for (int i = 0; i < kQ4Elements; ++i) {
        to[pair * kQ4Elements + i] =
            static_cast<unsigned char>(bytes[i][low] | (bytes[i][low + 1] << 4));
      }
    }
    if (is_finite(x + b * kBlock)) continue;
    std::memset(out + b * kQ4Bytes, 0, kQ4Bytes);
    store_nan(out + b * kQ4Bytes);
    store_nan(out + b * kQ4Bytes + 2);
  }
}

// ---- Q6_K: sixteen groups of 16

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

// ---- rows

void q4_row(const float* x, std::size_t blocks, unsigned char* out) {
  for (std::size_t b = 0; b < blocks; b += kQ4AtOnce) {
    const std::size_t left = blocks - b;
    const int count = left < kQ4AtOnce ? static_cast<int>(left) : kQ4AtOnce;
    q4_blocks(x + b * kBlock, count, out + b * kQ4Bytes);
  }
}

void q6_row(const float* x, std::size_t blocks, unsigned char* out) {
  for (std::size_t b = 0; b < blocks; ++b) q6_block(x + b * kBlock, out + b * kQ6Bytes);
}

}  // namespace
