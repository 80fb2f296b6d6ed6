#include "tenzro/forward/flight.hpp"

#include <algorithm>
#include <map>

#include "tenzro/base/assert.hpp"

namespace tenzro::forward {

Flight::Flight(Request request, std::shared_ptr<const work::Gate> gate, Mesh& mesh)
    : request_(std::move(request)), gate_(std::move(gate)), mesh_(mesh), attempts_(mesh) {}

void Flight::start(Instant now, Outbox& out) {
  if (request_.tokens == 0) {
    finish(now,
           fail(ErrorCode::infrastructure, "", "moe dispatch planner: token routing list is empty"),
           out);
    return;
  }
  own_job_ = mesh_.jobs.next();
  out.emplace_back(Run{own_job_, work::RunGate{.gate = gate_,
                                               .profile = request_.profile,
                                               .tokens = request_.tokens,
                                               .hidden = request_.hidden,
                                               .router_hidden = request_.router_hidden,
                                               .top_k = request_.top_k,
                                               .token_ids = request_.token_ids,
                                               .wants_expert_input = true}});
}

void Flight::on_job_done(Instant now, JobId id, const work::JobResult& result, Outbox& out) {
  if (phase_ == Phase::finished) return;
  if (attempts_.owns(id)) {
    auto verdict = attempts_.on_job_done(now, id, result, out);
    if (verdict) on_verdict(now, std::move(*verdict), out);
    return;
  }
  if (auto local = local_jobs_.extract(id)) {
    on_local_done(now, local.mapped(), result, out);
    return;
  }
  if (id != own_job_) return;
  own_job_ = JobId{};
  if (!result) {
    finish(now, fail(result.error()), out);
  } else if (phase_ == Phase::gating) {
    on_gated(now, std::get<work::GateResult>(*result), out);
  } else {
    on_combined(now, std::get<work::CombineResult>(*result), out);
  }
}

void Flight::on_gated(Instant now, const work::GateResult& result, Outbox& out) {
  routed_ = result.routed;
  expert_input_ = result.expert_input;
  can_be_q8_ = result.can_be_q8;
  phase_ = Phase::running;
  plan(now, out);
}

void Flight::advance(Outbox& out) {
  if (phase_ != Phase::running) return;
  if (open_parts_ == 0) {
    combine(out);
    return;
  }
  run_ready(out);
}

void Flight::combine(Outbox& out) {
  TENZRO_ASSERT(open_parts_ == 0);
  phase_ = Phase::combining;
  own_job_ = mesh_.jobs.next();
  // With nothing arrived the combine says which token kept too little.
  out.emplace_back(Run{own_job_, work::Combine{.gate = gate_,
                                               .layer = request_.layer.layer,
                                               .profile = request_.profile,
                                               .routed = routed_,
                                               .d_model = request_.d_model,
                                               .outputs = std::move(outputs_),
                                               .allow_partial = request_.allow_partial,
                                               .min_kept_mass = request_.min_kept_mass}});
}

std::vector<Missing> Flight::gaps() const {
  std::map<ExpertIndex, std::vector<std::uint32_t>> rows;  // ordered: the answer's order
  for (const Part& part : parts_) {
    if (part.state != PartState::missing) continue;
    std::vector<std::uint32_t>& all = rows[part.expert];
    all.insert(all.end(), part.rows.begin(), part.rows.end());
  }
  std::vector<Missing> missing;
  missing.reserve(rows.size());
  for (auto& [expert, tokens] : rows) missing.push_back({expert, std::move(tokens)});
  return missing;
}

void Flight::on_combined(Instant now, const work::CombineResult& result, Outbox& out) {
  finish(now,
         ForwardOutcome{.routed = std::move(routed_),
                        .outputs = result.outputs,
                        .tally = tally_,
                        .missing = gaps(),
                        .is_q8_carrier = is_q8_},
         out);
}

void Flight::on_tick(Instant now, Outbox& out) {
  if (phase_ == Phase::finished) return;
  if (now >= request_.deadline) {
    finish(now, fail(ErrorCode::infrastructure, "", "moe forward: deadline exceeded"), out);
    return;
  }
  if (phase_ != Phase::running) return;
  for (Verdict& verdict : attempts_.on_tick(now, out)) on_verdict(now, std::move(verdict), out);
  if (phase_ != Phase::running) return;
  for (const std::vector<PartIndex>& late : attempts_.take_late(now)) hedge(now, late, out);
  const auto is_replaceable = [&](PartIndex i) {
    return parts_[i].is_over() || parts_[i].live > 1 || has_standby(now, parts_[i]);
  };
  for (Verdict& verdict : attempts_.give_up(now, is_replaceable, out))
    on_verdict(now, std::move(verdict), out);
  if (phase_ != Phase::running) return;
  std::vector<PartIndex> awake;
  for (PartIndex i = 0; i < parts_.size(); ++i) {
    if (parts_[i].state == PartState::waiting && now >= parts_[i].wake) awake.push_back(i);
  }
  if (awake.empty()) return;
  place(now, plan_again(now, awake, out), out);
  advance(out);
}

std::optional<Instant> Flight::next_deadline() const {
  if (phase_ == Phase::finished) return std::nullopt;
  Instant earliest = request_.deadline;
  if (const auto attempt = attempts_.next_deadline()) earliest = std::min(earliest, *attempt);
  for (const Part& part : parts_) {
    if (part.state == PartState::waiting) earliest = std::min(earliest, part.wake);
  }
  return earliest;
}

void Flight::cancel(Instant now, Outbox& out) {
  phase_ = Phase::finished;
  attempts_.cancel_all(now, out);
  local_jobs_.clear();
  ready_.clear();
  outputs_.clear();
}

void Flight::finish(Instant now, Result<ForwardOutcome> outcome, Outbox& out) {
  if (phase_ == Phase::finished) return;
  cancel(now, out);
  out.emplace_back(ForwardFinished{std::move(outcome)});
}

}  // namespace tenzro::forward
