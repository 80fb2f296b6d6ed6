#include "tenzro/routing/router.hpp"

#include "tenzro/base/assert.hpp"

namespace tenzro::routing {

namespace {

bool is_absent_or(const std::vector<float>& values, std::size_t size) {
  return values.empty() || values.size() == size;
}

}  // namespace

Router::Router(const wire::GateBlob& gate)
    : spec_(gate.spec),
      num_experts_(gate.num_experts),
      d_model_(gate.d_model),
      table_top_k_(gate.tid2eid_top_k),
      bias_(gate.bias),
      per_expert_scale_(gate.per_expert_scale),
      input_scale_(gate.input_scale),
      latent_norm_(gate.latent_norm),
      table_(gate.tid2eid) {
  TENZRO_ASSERT(num_experts_ > 0);
  TENZRO_ASSERT(d_model_ > 0);
  TENZRO_ASSERT(spec_.n_group > 0);
  TENZRO_ASSERT(num_experts_ % spec_.n_group == 0);
  TENZRO_ASSERT(spec_.topk_group > 0);
  TENZRO_ASSERT(spec_.topk_group <= spec_.n_group);
  TENZRO_ASSERT(is_absent_or(bias_, num_experts_));
  TENZRO_ASSERT(is_absent_or(per_expert_scale_, num_experts_));
  TENZRO_ASSERT(is_absent_or(input_scale_, d_model_));
  TENZRO_ASSERT(table_top_k_ <= num_experts_);
  if (table_top_k_ == 0) {
    table_.clear();
    return;
  }
  TENZRO_ASSERT(table_.size() % table_top_k_ == 0);
  vocabulary_ = static_cast<std::uint32_t>(table_.size() / table_top_k_);
}

std::optional<std::uint32_t> Router::default_top_k() const {
  return is_hash_routed() ? std::optional(table_top_k_) : spec_.top_k;
}

std::span<const std::uint32_t> Router::table_row(std::uint32_t token) const {
  TENZRO_ASSERT(token < vocabulary_);
  return std::span(table_).subspan(std::size_t{token} * table_top_k_, table_top_k_);
}

float Router::output_scale() const {
  return spec_.scale_on == wire::ScaleOn::output ? static_cast<float>(spec_.scale) : 1.0F;
}

std::size_t Router::bytes() const {
  const std::size_t floats = bias_.capacity() + per_expert_scale_.capacity() +
                             input_scale_.capacity() + latent_norm_.capacity();
  return sizeof(Router) + floats * sizeof(float) + table_.capacity() * sizeof(std::uint32_t);
}

}  // namespace tenzro::routing
