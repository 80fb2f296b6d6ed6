#pragma once
/// \file
/// The two normalisations that belong to a router rather than to an expert.
///
/// Both work row by row: n = x / sqrt(mean(x^2) + eps), the mean of squares accumulated in double
/// in ascending order, n rounded to f32 once, then one f32 multiply by the vector. So a row's
/// result depends on nothing but that row.
#include <span>

#include "tenzro/routing/router.hpp"

namespace tenzro::routing {

/// What the router matrix sees of `rows` [n, d_model] (Gemma: RMS norm without a weight, then
/// `router.input_scale`, into which the model's d_model^-0.5 is folded): RMS norm where the spec's
/// `input_norm` is rms, then `router.input_scale` where present, else a copy. `out` has the size of
/// `rows` and may be `rows`.
void normalize_router_input(const Router& router, std::span<const float> rows,
                            std::span<float> out);

/// RMS norm of the routed sums `rows` [n, latent] with the weight `router.latent_norm`, in place,
/// before the up projection. Requires router.has_latent().
void apply_latent_norm(const Router& router, std::span<float> rows);

}  // namespace tenzro::routing
