#pragma once
/// \file
/// The activations, written once over the few vector operations that the including file defines
/// before this text.
///
/// One text for every ISA is what makes the bits equal: each operation below is one IEEE f32
/// operation (fma included) per lane, in one order. Internal linkage: see kernels/cpu/abi.hpp. The
/// including file defines, for its vector F of kLanes floats:
///   splat add sub mul div fma(a,b,c)=ab+c, larger(a,x)=a>x?a:x, smaller(a,x)=a<x?a:x (so a NaN x
///   stays), magnitude(x), with_sign_of(magnitude,x), where_negative(x,a,b)=x<0?a:b,
///   power_of_two(t) (below), load, store.
/// Accuracy against double, measured by the tests: exp and tanh within 2 ulp; sigmoid within 3;
/// where an argument is itself rounded before exp (gelu, swigluoai), its error grows by |argument|.
#include "kernels/cpu/abi.hpp"

namespace {

// Adding 1.5·2^23 leaves the nearest integer in the low bits of an f32 (ties to even), for |x| <
// 2^22.
constexpr float kRounder = 0x1.8p23F;

struct Reduced {
  F rest;     ///< expm1(r) of x = n·ln2 + r, |r| <= ln2/2
  F shifted;  ///< n + kRounder
};

/// x in [-104, 0]. Below -104, exp is zero in f32.
Reduced reduce(F x) {
  x = larger(splat(-104.0F), x);
  const F shifted = fma(x, splat(0x1.715476p0F), splat(kRounder));  // log2(e)
  const F n = sub(shifted, splat(kRounder));
  F r = fma(n, splat(-0x1.62E430p-1F), x);  // ln2 in two parts
  r = fma(n, splat(0x1.05C610p-29F), r);
  // Taylor: the first omitted term is below 2^-27 at |r| = ln2/2.
  F p = splat(1.0F / 5040.0F);
  p = fma(p, r, splat(1.0F / 720.0F));
  p = fma(p, r, splat(1.0F / 120.0F));
  p = fma(p, r, splat(1.0F / 24.0F));
  p = fma(p, r, splat(1.0F / 6.0F));
  p = fma(p, r, splat(0.5F));
  return {fma(mul(r, r), p, r), shifted};
}

/// exp(x) for x <= 0, subnormal results included (the last factor rounds once).
F exp_of_negative(F x) {
  const Reduced reduced = reduce(x);
  const Halves power = power_of_two(reduced.shifted);
  return mul(mul(add(reduced.rest, splat(1.0F)), power.first), power.second);
}

F sigmoid(F x) {
  const F z = exp_of_negative(sub(splat(0.0F), magnitude(x)));
  return div(where_negative(x, z, splat(1.0F)), add(z, splat(1.0F)));
}

/// -expm1(-2|x|) / (2 + expm1(-2|x|)): no cancellation anywhere.
F tanh(F x) {
  const Reduced reduced = reduce(mul(magnitude(x), splat(-2.0F)));
  const Halves halves = power_of_two(reduced.shifted);
  const F power = mul(halves.first, halves.second);
  const F expm1 = fma(power, reduced.rest, sub(power, splat(1.0F)));
  return with_sign_of(div(sub(splat(0.0F), expm1), add(expm1, splat(2.0F))), x);
}

F clamped(F x, float limit) {
  return larger(splat(-limit), smaller(splat(limit), x));
}

F silu(const TzActivation* /*job*/, F gate, F up) {
  return mul(mul(gate, sigmoid(gate)), up);
}

F silu_clamped(const TzActivation* job, F gate, F up) {
  return silu(job, smaller(splat(job->limit), gate), clamped(up, job->limit));
}

F swiglu_oai(const TzActivation* job, F gate, F up) {
  const F g = smaller(splat(job->limit), gate);
  const F u = add(clamped(up, job->limit), splat(1.0F));
  return mul(mul(u, g), sigmoid(mul(splat(job->alpha), g)));
}

/// ½(1 + tanh(w)) = sigmoid(2w), which keeps its accuracy for negative w. 2·sqrt(2/pi) = 1.5957691.
F gelu_tanh(const TzActivation* /*job*/, F gate, F up) {
  const F cubic = fma(mul(splat(0.044715F), gate), gate, splat(1.0F));
  const F twice_w = mul(mul(splat(1.59576912F), gate), cubic);
  return mul(mul(gate, sigmoid(twice_w)), up);
}

F relu2(const TzActivation* /*job*/, F /*gate*/, F up) {
  const F positive = larger(splat(0.0F), up);
  return mul(positive, positive);
}

F situ(const TzActivation* job, F gate, F up) {
  const F g = mul(splat(job->beta), tanh(div(gate, splat(job->beta))));
  const F u = mul(splat(job->linear_beta), tanh(div(up, splat(job->linear_beta))));
  return mul(mul(g, sigmoid(gate)), u);
}

template <F (*Activate)(const TzActivation*, F, F)>
void each(const TzActivation* job) {
  const float* gate = job->kind == TzActivationKind::relu2 ? job->up : job->gate;
  for (std::size_t i = 0; i < job->n; i += kLanes) {
    const std::size_t count = job->n - i < kLanes ? job->n - i : kLanes;
    store(job->out + i, Activate(job, load(gate + i, count), load(job->up + i, count)), count);
  }
}

void activate(const TzActivation* job) {
  switch (job->kind) {
    case TzActivationKind::silu:
      return each<silu>(job);
    case TzActivationKind::silu_clamped:
      return each<silu_clamped>(job);
    case TzActivationKind::swiglu_oai:
      return each<swiglu_oai>(job);
    case TzActivationKind::gelu_tanh:
      return each<gelu_tanh>(job);
    case TzActivationKind::relu2:
      return each<relu2>(job);
    case TzActivationKind::situ:
      return each<situ>(job);
  }
}

}  // namespace
