#include "support/naive_layer.hpp"

#include <cmath>

#include "support/reference_ffn.hpp"

namespace tenzro::testing {

namespace {

using Row = std::vector<double>;

Row widen(std::span<const float> row) {
  return {row.begin(), row.end()};
}

std::vector<float> narrow(const Row& row) {
  std::vector<float> out;
  for (const double x : row) out.push_back(static_cast<float>(x));
  return out;
}

void add(Row& to, const Row& what, double weight) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += weight * what[i];
}

Row rms_normed(Row row, double epsilon) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(row.size()) + epsilon);
  for (double& x : row) x *= factor;
  return row;
}

Row times(Row row, std::span<const float> by) {
  for (std::size_t i = 0; i < by.size(); ++i) row[i] *= static_cast<double>(by[i]);
  return row;
}

/// One token, from the formulas of the gate spec.
Row token_output(const NaiveLayer& layer, const Row& x, std::span<const routing::Slot> slots) {
  const wire::GateBlob& gate = layer.gate;
  const Row seen = gate.latent_down ? reference_matmul(*gate.latent_down, x, {}) : x;
  Row routed(seen.size(), 0.0);
  Row shared(x.size(), 0.0);
  for (const routing::Slot& slot : slots) {
    const bool is_shared = slot.expert == gate.num_experts;
    const std::vector<float> y = reference_ffn(
        layer.experts[slot.expert], narrow(is_shared ? x : seen), ActivationRounding::none);
    add(is_shared ? shared : routed, widen(y), static_cast<double>(slot.weight));
  }
  if (gate.latent_up) {
    routed = times(rms_normed(std::move(routed), gate.spec.latent_norm_eps), gate.latent_norm);
    routed = reference_matmul(*gate.latent_up, routed, {});
  }
  const bool is_scaled = gate.spec.scale_on == wire::ScaleOn::output;
  add(shared, routed, is_scaled ? gate.spec.scale : 1.0);
  return shared;
}

}  // namespace

std::vector<float> naive_logits(const wire::GateBlob& gate, std::span<const float> rows) {
  std::vector<float> out;
  for (std::size_t at = 0; at < rows.size(); at += gate.d_model) {
    Row x = widen(rows.subspan(at, gate.d_model));
    if (gate.spec.input_norm == wire::InputNorm::rms) {
      x = rms_normed(std::move(x), gate.spec.input_norm_eps);
    }
    const std::vector<float> logits =
        narrow(reference_matmul(gate.router, times(std::move(x), gate.input_scale), {}));
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

std::vector<float> naive_shared_gate_logits(const wire::GateBlob& gate,
                                            std::span<const float> rows) {
  std::vector<float> out;
  if (!gate.shared_gate) return out;
  for (std::size_t at = 0; at < rows.size(); at += gate.d_model) {
    const Row logit =
        reference_matmul(*gate.shared_gate, widen(rows.subspan(at, gate.d_model)), {});
    out.push_back(static_cast<float>(logit[0]));
  }
  return out;
}

std::vector<float> naive_output(const NaiveLayer& layer, std::span<const float> rows,
                                const routing::Routed& routed) {
  const std::uint32_t width = layer.gate.d_model;
  std::vector<float> out;
  for (std::uint32_t token = 0; token < routed.tokens; ++token) {
    const Row x = widen(rows.subspan(std::size_t{token} * width, width));
    const std::vector<float> row = narrow(token_output(layer, x, routed.token(token)));
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

}  // namespace tenzro::testing
