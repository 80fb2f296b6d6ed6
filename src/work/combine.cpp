#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tenzro/routing/norms.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::work {
namespace {

constexpr std::size_t kTokensPerSlice = 8;

/// Where each (token, slot) finds its expert's output row; null where none arrived.
using Rows = std::vector<const float*>;

/// Widths of the two sums of a layer: what routed experts yield, and what the shared one yields.
struct Widths {
  std::uint32_t routed = 0;
  std::uint32_t shared = 0;
};

/// Notes where the slots of one expert find its rows.
void index_output(const Combine& job, const ExpertOutput& output, std::uint32_t width, Rows& rows) {
  const std::uint32_t per_token = job.routed.slots_per_token;
  const float* values = output.values.as<float>().data();
  for (std::size_t i = 0; i < output.rows.size(); ++i) {
    const std::size_t first = std::size_t{output.rows[i]} * per_token;
    for (std::size_t s = first; s < first + per_token; ++s) {
      if (job.routed.slots[s].expert == output.expert) rows[s] = values + i * width;
    }
  }
}

Rows index_rows(const Combine& job, Widths widths) {
  Rows rows(job.routed.slots.size(), nullptr);
  for (const ExpertOutput& output : job.outputs) {
    const bool is_shared = output.expert >= job.gate->router.num_experts();
    index_output(job, output, is_shared ? widths.shared : widths.routed, rows);
  }
  return rows;
}

/// What multiplies the routed weights of one token, or why the token cannot be served.
Result<float> partial_factor(const Combine& job, const Rows& rows, std::uint32_t token) {
  const std::uint32_t per_token = job.routed.slots_per_token;
  double total = 0;
  double arrived = 0;
  for (std::uint32_t s = 0; s < per_token; ++s) {
    const std::size_t at = std::size_t{token} * per_token + s;
    const routing::Slot& slot = job.routed.slots[at];
    const bool is_shared = slot.expert >= job.gate->router.num_experts();
    if (rows[at] == nullptr && (is_shared || !job.allow_partial)) {
      return fail(ErrorCode::runtime, "",
                  "moe combine: no expert output for token " + std::to_string(token) +
                      " from expert " + std::to_string(job.layer) + "/" +
                      std::to_string(slot.expert));
    }
    if (is_shared) continue;
    total += double{slot.weight};
    if (rows[at] != nullptr) arrived += double{slot.weight};
  }
  if (arrived == total) return 1.0F;
  const double kept = total > 0 ? arrived / total : 0;
  if (kept < job.min_kept_mass || arrived <= 0) {
    return fail(ErrorCode::runtime, "",
                "moe combine: token " + std::to_string(token) + " keeps " + std::to_string(kept) +
                    " of its gate weight, below the minimum of " +
                    std::to_string(job.min_kept_mass));
  }
  return static_cast<float>(total / arrived);
}

/// What one slot adds to a token's row.
struct Term {
  float weight = 0;
  const float* values = nullptr;
};

constexpr std::size_t kStrip = 64;  ///< values that are summed at once: they stay in registers

/// acc[i] = acc[i] + weight · y[i]. The product is rounded before the sum: this file is compiled
/// without FMA contraction.
void add_scaled(std::span<float> acc, const Term& term) {
  for (std::size_t i = 0; i < acc.size(); ++i) {
    const float product = term.weight * term.values[i];
    acc[i] = acc[i] + product;
  }
}

/// The terms' sum of the strip that begins at `at`.
std::array<float, kStrip> sum_strip(std::span<const Term> terms, std::size_t at) {
  std::array<float, kStrip> sum{};
  for (const Term& term : terms) {
    const float* values = term.values + at;
    for (std::size_t i = 0; i < kStrip; ++i) {
      const float product = term.weight * values[i];
      sum[i] = sum[i] + product;
    }
  }
  return sum;
}

/// acc = the terms' sum from zero on, in their order. A strip at a time: a loop of known length
/// becomes vectors, and a sum is written once and not once a term.
void sum_terms(std::span<float> acc, std::span<const Term> terms) {
  std::size_t at = 0;
  for (; at + kStrip <= acc.size(); at += kStrip) {
    const std::array<float, kStrip> sum = sum_strip(terms, at);
    std::copy(sum.begin(), sum.end(), acc.begin() + static_cast<std::ptrdiff_t>(at));
  }
  const std::span<float> rest = acc.subspan(at);
  std::fill(rest.begin(), rest.end(), 0.0F);
  for (const Term& term : terms) add_scaled(rest, {term.weight, term.values + at});
}

void sum_routed(const Combine& job, const Rows& rows, std::uint32_t token, float factor,
                std::span<float> acc) {
  const std::uint32_t per_token = job.routed.slots_per_token;
  std::vector<Term> terms;
  terms.reserve(per_token);
  for (std::uint32_t s = 0; s < per_token; ++s) {
    const std::size_t at = std::size_t{token} * per_token + s;
    const routing::Slot& slot = job.routed.slots[at];
    if (rows[at] == nullptr || slot.expert >= job.gate->router.num_experts()) continue;
    terms.push_back({factor == 1.0F ? slot.weight : slot.weight * factor, rows[at]});
  }
  sum_terms(acc, terms);
}

void add_shared(const Combine& job, const Rows& rows, std::uint32_t token, std::span<float> acc) {
  const std::size_t at = std::size_t{token + 1} * job.routed.slots_per_token - 1;
  const routing::Slot& slot = job.routed.slots[at];
  if (slot.expert >= job.gate->router.num_experts()) add_scaled(acc, {slot.weight, rows[at]});
}

/// Routed sums of a latent layer, normalised and projected back to d_model.
Status project_latent(const Combine& job, std::span<float> latent, std::span<float> out,
                      const JobContext& context) {
  routing::apply_latent_norm(job.gate->router, latent);
  const compute::MatmulJob matmul{.profile = job.profile,
                                  .matrix = job.gate->latent_up.get(),
                                  .input = latent.data(),
                                  .input_rows = job.routed.tokens,
                                  .out = out.data()};
  return context.backend.run_matmul(matmul, context.executor);
}

}  // namespace

Result<CombineResult> combine(const Combine& job, const JobContext& context) {
  const routing::Router& router = job.gate->router;
  const std::uint32_t tokens = job.routed.tokens;
  const bool is_latent = job.gate->latent_up != nullptr;
  const Widths widths{.routed = job.gate->expert_width, .shared = job.d_model};
  const Rows rows = index_rows(job, widths);
  std::vector<float> factors(tokens);
  for (std::uint32_t token = 0; token < tokens; ++token) {
    const auto factor = partial_factor(job, rows, token);
    if (!factor) return tl::unexpected<Error>(factor.error());
    factors[token] = *factor;
  }
  BufferRef outputs = BufferRef::allocate(std::size_t{tokens} * job.d_model * sizeof(float));
  const std::span<float> out = outputs.mutable_as<float>();
  BufferRef latent;
  if (is_latent) latent = BufferRef::allocate(std::size_t{tokens} * widths.routed * sizeof(float));
  const std::span<float> sums = is_latent ? latent.mutable_as<float>() : out;
  const auto for_tokens = [&](const std::function<void(std::uint32_t)>& body) {
    context.executor.parallel_for(
        (tokens + kTokensPerSlice - 1) / kTokensPerSlice, [&](std::size_t slice) {
          const std::size_t first = slice * kTokensPerSlice;
          const std::size_t last = std::min<std::size_t>(first + kTokensPerSlice, tokens);
          for (std::size_t t = first; t < last; ++t) body(static_cast<std::uint32_t>(t));
        });
  };
  for_tokens([&](std::uint32_t t) {
    sum_routed(job, rows, t, factors[t],
               sums.subspan(std::size_t{t} * widths.routed, widths.routed));
  });
  if (is_latent) {
    if (auto status = project_latent(job, sums, out, context); !status) {
      return tl::unexpected<Error>(status.error());
    }
  }
  const float scale = router.output_scale();
  for_tokens([&](std::uint32_t t) {
    const std::span<float> row = out.subspan(std::size_t{t} * job.d_model, job.d_model);
    if (scale != 1.0F) {
      for (float& value : row) value *= scale;
    }
    if (router.has_shared_slot()) add_shared(job, rows, t, row);
  });
  return CombineResult{std::move(outputs)};
}

}  // namespace tenzro::work
