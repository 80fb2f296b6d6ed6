#include "tenzro/receipts/carrier.hpp"
#include "tenzro/routing/norms.hpp"
#include "tenzro/routing/route.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::work {
namespace {

/// rows · Mᵀ into a fresh buffer of [tokens, outputs] f32.
Result<BufferRef> multiply(const compute::ResidentMatrix& matrix, std::span<const float> rows,
                           std::uint32_t tokens, std::uint32_t outputs, compute::Profile profile,
                           const JobContext& context) {
  BufferRef out = BufferRef::allocate(std::size_t{tokens} * outputs * sizeof(float));
  const compute::MatmulJob job{.profile = profile,
                               .matrix = &matrix,
                               .input = rows.data(),
                               .input_rows = tokens,
                               .out = out.mutable_as<float>().data()};
  if (auto status = context.backend.run_matmul(job, context.executor); !status) {
    return tl::unexpected<Error>(status.error());
  }
  return out;
}

}  // namespace

Result<GateResult> run_gate(const RunGate& job, const JobContext& context) {
  const Gate& gate = *job.gate;
  const routing::Router& router = gate.router;
  GateResult result;
  if (job.tokens == 0) {
    result.routed.slots_per_token = 0;
    return result;
  }
  const BufferRef& router_rows = job.router_hidden.empty() ? job.hidden : job.router_hidden;
  std::span<const float> router_input = router_rows.as<float>();
  BufferRef normalized;
  if (router.transforms_input()) {
    normalized = BufferRef::allocate(router_rows.size());
    routing::normalize_router_input(router, router_input, normalized.mutable_as<float>());
    router_input = normalized.as<float>();
  }
  auto logits =
      multiply(*gate.weight, router_input, job.tokens, router.num_experts(), job.profile, context);
  if (!logits) return tl::unexpected<Error>(logits.error());
  BufferRef shared_logits;
  if (gate.shared_gate != nullptr) {
    auto shared =
        multiply(*gate.shared_gate, job.hidden.as<float>(), job.tokens, 1, job.profile, context);
    if (!shared) return tl::unexpected<Error>(shared.error());
    shared_logits = std::move(*shared);
  }
  auto routed = routing::route(router, {.logits = logits->as<float>(),
                                        .tokens = job.tokens,
                                        .top_k = job.top_k,
                                        .token_ids = job.token_ids,
                                        .shared_gate_logits = shared_logits.as<float>()});
  if (!routed) return tl::unexpected<Error>(routed.error());
  result.routed = std::move(*routed);
  if (!job.wants_expert_input) return result;
  result.expert_input = job.hidden;
  if (gate.latent_down != nullptr) {
    auto latent = multiply(*gate.latent_down, job.hidden.as<float>(), job.tokens, gate.expert_width,
                           job.profile, context);
    if (!latent) return tl::unexpected<Error>(latent.error());
    result.expert_input = std::move(*latent);
  }
  result.can_be_q8 = receipts::can_be_q8(job.hidden.as<float>(), router.d_model()) &&
                     receipts::can_be_q8(result.expert_input.as<float>(), gate.expert_width);
  return result;
}

}  // namespace tenzro::work
