#pragma once
/// \file
/// The score functions, each in double and rounded to f32 once (why: route.hpp, "Arithmetic").
#include <span>
#include <vector>

#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::routing {

[[nodiscard]] float sigmoid(float logit);

/// sqrt(log(1 + e^logit)).
[[nodiscard]] float sqrt_softplus(float logit);

/// Softmax over all of `values`, in place. Requires finite values and at least one; `exps` is
/// scratch of any size.
void softmax(std::span<float> values, std::vector<double>& exps);

/// Replaces logits by scores. Requires finite logits.
void score(wire::Scoring scoring, std::span<float> logits, std::vector<double>& exps);

}  // namespace tenzro::routing
