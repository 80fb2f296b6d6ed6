#include "tenzro/forward/flight.hpp"

#include <algorithm>

#include "tenzro/base/assert.hpp"

namespace tenzro::forward {
namespace {

Error planner_error(const std::string& text) {
  return {ErrorCode::infrastructure, "", "moe dispatch planner: " + text};
}

}  // namespace

Flight::Flight(Request request, std::shared_ptr<const work::Gate> gate, work::JobIds& ids)
    : request_(std::move(request)), gate_(std::move(gate)), ids_(ids) {}

void Flight::start(Outbox& out) {
  if (request_.tokens == 0) {
    finish(fail(planner_error("token routing list is empty")), out);
    return;
  }
  out.emplace_back(Run{ids_.next(), work::RunGate{.gate = gate_,
                                                  .profile = request_.profile,
                                                  .tokens = request_.tokens,
                                                  .hidden = request_.hidden,
                                                  .router_hidden = request_.router_hidden,
                                                  .top_k = request_.top_k,
                                                  .token_ids = request_.token_ids,
                                                  .wants_expert_input = true}});
}

void Flight::on_failed(const Error& error, Outbox& out) {
  if (phase_ == Phase::finished) return;
  finish(fail(error), out);
}

void Flight::on_gated(const work::GateResult& result, const shards::View& view,
                      const ProviderAddress& self, const Facts& facts, Outbox& out) {
  if (phase_ != Phase::gating) return;
  routed_ = result.routed;
  expert_input_ = result.expert_input;
  can_be_q8_ = result.can_be_q8;
  phase_ = Phase::running;
  plan(view, self, facts, out);
}

void Flight::plan(const shards::View& view, const ProviderAddress& self, const Facts& facts,
                  Outbox& out) {
  std::vector<planner::TokenExperts> wanted(routed_.tokens);
  for (std::uint32_t t = 0; t < routed_.tokens; ++t) {
    wanted[t].token_index = t;
    for (const routing::Slot& slot : routed_.token(t)) {
      wanted[t].experts.emplace_back(request_.layer.layer, slot.expert);
    }
  }
  planner::Plan plan = planner::make_plan(request_.layer.model, wanted, view,
                                          {.self = self, .allow_cold = request_.allow_cold});
  for (planner::Batch& gap : plan.unreachable) {
    if (!request_.allow_partial || is_shared(gap.slot.second)) {
      finish(fail(planner_error(planner::unreachable_text(gap.slot))), out);
      return;
    }
    missing_.push_back({gap.slot.second, std::move(gap.tokens)});
  }
  is_q8_ = chooses_q8(plan, facts);
  batches_ = static_cast<std::uint32_t>(plan.batches.size());
  std::vector<ExpertIndex> experts;
  for (planner::Batch& batch : plan.batches) {
    experts.push_back(batch.slot.second);
    open_.insert(batch.slot.second);
    tokens_.emplace(batch.slot.second, std::move(batch.tokens));
  }
  if (experts.empty()) {
    combine(out);  // nothing arrived: the combine says which token kept too little
    return;
  }
  out.emplace_back(Acquire{std::move(experts)});
}

bool Flight::chooses_q8(const planner::Plan& plan, const Facts& facts) const {
  // Asked for or not: rows that Q8_0 cannot carry travel dense.
  if (request_.carrier == Carrier::dense || !can_be_q8_) return false;
  if (request_.carrier == Carrier::automatic) {
    const auto is_quantized = [&](const planner::Batch& batch) {
      const auto* known = facts.find({request_.layer.model, batch.slot.first, batch.slot.second});
      return known != nullptr && known->is_quantized();
    };
    if (!std::all_of(plan.batches.begin(), plan.batches.end(), is_quantized)) return false;
  }
  return true;
}

void Flight::on_expert_ready(ExpertIndex expert,
                             std::shared_ptr<const compute::ResidentExpert> resident,
                             const work::ExpertFacts& facts, Outbox& out) {
  if (phase_ != Phase::running || !open_.contains(expert)) return;
  // Checked here and not in the plan: a reload may have changed it since.
  const std::uint32_t width = is_shared(expert) ? request_.d_model : gate_->expert_width;
  if (facts.d_model != width) {
    finish(fail(ErrorCode::runtime, "",
                "moe forward: expert l" + std::to_string(request_.layer.layer) + "/e" +
                    std::to_string(expert) + " has width " + std::to_string(facts.d_model) +
                    ", its layer's gate gives it rows of " + std::to_string(width)),
           out);
    return;
  }
  ready_.push_back({expert, std::move(resident)});
}

void Flight::on_expert_unavailable(ExpertIndex expert, const Error& error, Outbox& out) {
  if (phase_ != Phase::running || open_.erase(expert) == 0) return;
  if (!request_.allow_partial || is_shared(expert)) {
    const planner::View::Slot slot{request_.layer.layer, expert};
    finish(fail(error.code, "",
                "expert l" + std::to_string(slot.first) + "/e" + std::to_string(slot.second) +
                    " holder error: " + error.message()),
           out);
    return;
  }
  missing_.push_back({expert, tokens_.at(expert)});
}

void Flight::advance(Outbox& out) {
  if (phase_ != Phase::running) return;
  if (ready_.empty()) {
    if (open_.empty()) combine(out);
    return;
  }
  // The shared expert reads full-width rows; in a latent layer the others read narrower ones.
  std::vector<Ready> routed;
  std::vector<Ready> shared;
  const bool is_latent = gate_->latent_down != nullptr;
  for (Ready& ready : ready_) {
    (is_latent && is_shared(ready.expert) ? shared : routed).push_back(std::move(ready));
  }
  ready_.clear();
  if (!routed.empty()) run(std::move(routed), expert_input_, gate_->expert_width, out);
  if (!shared.empty()) run(std::move(shared), request_.hidden, request_.d_model, out);
}

void Flight::run(std::vector<Ready> ready, const BufferRef& input, std::uint32_t width,
                 Outbox& out) {
  work::RunExperts job{
      .profile = request_.profile, .round_to_q8 = is_q8_, .input = input, .width = width};
  for (Ready& one : ready) {
    job.batches.push_back({one.expert, std::move(one.resident), tokens_.at(one.expert)});
  }
  out.emplace_back(Run{ids_.next(), std::move(job)});
}

void Flight::on_experts_done(const work::ExpertsResult& result, Outbox& out) {
  if (phase_ != Phase::running) return;
  std::uint64_t pairs = 0;
  for (const work::ExpertOutput& output : result.outputs) {
    if (open_.erase(output.expert) == 0) continue;  // counted once
    pairs += output.rows.size();
    ++served_;
    outputs_.push_back(output);
    out.emplace_back(Release{output.expert});
  }
  out.emplace_back(Metered{pairs});
  advance(out);
}

void Flight::combine(Outbox& out) {
  TENZRO_ASSERT(open_.empty());
  phase_ = Phase::combining;
  out.emplace_back(Run{ids_.next(), work::Combine{.gate = gate_,
                                                  .layer = request_.layer.layer,
                                                  .profile = request_.profile,
                                                  .routed = routed_,
                                                  .d_model = request_.d_model,
                                                  .outputs = std::move(outputs_),
                                                  .allow_partial = request_.allow_partial,
                                                  .min_kept_mass = request_.min_kept_mass}});
}

void Flight::on_combined(const work::CombineResult& result, Outbox& out) {
  if (phase_ != Phase::combining) return;
  std::sort(missing_.begin(), missing_.end(),
            [](const Missing& a, const Missing& b) { return a.expert < b.expert; });
  finish(ForwardOutcome{.routed = std::move(routed_),
                        .outputs = result.outputs,
                        .batches = batches_,
                        .batches_local = served_,
                        .missing = std::move(missing_),
                        .is_q8_carrier = is_q8_},
         out);
}

void Flight::on_tick(Instant now, Outbox& out) {
  if (phase_ == Phase::finished || now < request_.deadline) return;
  finish(fail(ErrorCode::infrastructure, "", "moe forward: deadline exceeded"), out);
}

std::optional<Instant> Flight::next_deadline() const {
  if (phase_ == Phase::finished) return std::nullopt;
  return request_.deadline;
}

void Flight::finish(Result<ForwardOutcome> outcome, Outbox& out) {
  phase_ = Phase::finished;
  open_.clear();
  ready_.clear();
  outputs_.clear();
  out.emplace_back(ForwardFinished{std::move(outcome)});
}

}  // namespace tenzro::forward
