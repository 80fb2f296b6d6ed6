#include "tenzro/routing/norms.hpp"

#include <algorithm>
#include <cmath>

#include "tenzro/base/assert.hpp"

namespace tenzro::routing {

namespace {

double inverse_rms(std::span<const float> row, double epsilon) {
  double sum = 0;
  for (const float x : row) sum += static_cast<double>(x) * static_cast<double>(x);
  return 1.0 / std::sqrt(sum / static_cast<double>(row.size()) + epsilon);
}

void multiply(std::span<const float> row, double factor, std::span<float> out) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    out[i] = static_cast<float>(static_cast<double>(row[i]) * factor);
  }
}

void multiply(std::span<float> row, std::span<const float> by) {
  for (std::size_t i = 0; i < row.size(); ++i) row[i] *= by[i];
}

}  // namespace

void normalize_router_input(const Router& router, std::span<const float> rows,
                            std::span<float> out) {
  const std::size_t width = router.d_model();
  TENZRO_ASSERT(rows.size() == out.size());
  TENZRO_ASSERT(rows.size() % width == 0);
  const wire::RouterSpec& spec = router.spec();
  for (std::size_t at = 0; at < rows.size(); at += width) {
    const std::span<const float> row = rows.subspan(at, width);
    const std::span<float> to = out.subspan(at, width);
    const bool is_rms = spec.input_norm == wire::InputNorm::rms;
    multiply(row, is_rms ? inverse_rms(row, spec.input_norm_eps) : 1.0, to);
    if (!router.input_scale().empty()) multiply(to, router.input_scale());
  }
}

void apply_latent_norm(const Router& router, std::span<float> rows) {
  TENZRO_ASSERT(router.has_latent());
  const std::size_t width = router.latent_norm().size();
  TENZRO_ASSERT(rows.size() % width == 0);
  for (std::size_t at = 0; at < rows.size(); at += width) {
    const std::span<float> row = rows.subspan(at, width);
    multiply(row, inverse_rms(row, router.spec().latent_norm_eps), row);
    multiply(row, router.latent_norm());
  }
}

}  // namespace tenzro::routing
