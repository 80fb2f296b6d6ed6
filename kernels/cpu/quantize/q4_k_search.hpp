#pragma once
/// \file
/// Q4_K blocks, eight groups of 32 each: see k_search.hpp.
#include "kernels/cpu/quantize/k_search.hpp"

namespace {

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

void q4_row(const float* x, std::size_t blocks, unsigned char* out) {
  for (std::size_t b = 0; b < blocks; b += kQ4AtOnce) {
    const std::size_t left = blocks - b;
    const int count = left < kQ4AtOnce ? static_cast<int>(left) : kQ4AtOnce;
    q4_blocks(x + b * kBlock, count, out + b * kQ4Bytes);
  }
}

}  // namespace
