#include "tenzro/forward/execution.hpp"

#include <numeric>

namespace tenzro::forward {
namespace {

Error execute_error(const Error& error) {
  const std::string text = error.message();
  const bool is_named = text.starts_with("moe execute: ");
  return {error.code, "", is_named ? text : "moe execute: " + text};
}

}  // namespace

Execution::Execution(ExecuteRequest request, work::JobIds& ids)
    : request_(std::move(request)), ids_(ids) {}

void Execution::start(Outbox& out) {
  if (request_.token_indices.empty()) {
    finish(fail(ErrorCode::runtime, "", "moe execute: expert execution batch is empty"), out);
    return;
  }
  out.emplace_back(Acquire{{request_.key.expert}});
}

void Execution::on_expert_ready(std::shared_ptr<const compute::ResidentExpert> resident,
                                const work::ExpertIdentity& identity, Outbox& out) {
  if (phase_ != Phase::acquiring) return;
  if (identity.facts.d_model != request_.d_model) {  // reloaded since the request was checked
    finish(fail(ErrorCode::invalid_params, "d_model",
                std::to_string(request_.d_model) + " is not the expert's width, " +
                    std::to_string(identity.facts.d_model)),
           out);
    return;
  }
  phase_ = Phase::running;
  identity_ = identity;
  std::vector<std::uint32_t> rows(request_.token_indices.size());
  std::iota(rows.begin(), rows.end(), 0U);
  work::RunExperts job{
      .profile = request_.profile, .input = request_.hidden, .width = request_.d_model};
  job.batches.push_back({request_.key.expert, std::move(resident), std::move(rows)});
  job.token_names = request_.token_indices;
  out.emplace_back(Run{ids_.next(), std::move(job)});
}

void Execution::on_expert_unavailable(const Error& error, Outbox& out) {
  if (phase_ != Phase::acquiring) return;
  finish(fail(execute_error(error)), out);
}

void Execution::on_failed(const Error& error, Outbox& out) {
  if (phase_ == Phase::finished) return;
  if (phase_ == Phase::signing) {
    finish(fail(error.code, "", "execution receipt: " + error.message()), out);
  } else {
    finish(fail(execute_error(error)), out);
  }
}

void Execution::on_experts_done(const work::ExpertsResult& result, Outbox& out) {
  if (phase_ != Phase::running) return;
  phase_ = Phase::signing;
  outputs_ = result.outputs.front().values;
  out.emplace_back(Release{request_.key.expert});
  out.emplace_back(Metered{request_.token_indices.size()});
  out.emplace_back(Run{ids_.next(), work::SignReceipt{.key = request_.key,
                                                      .token_indices = request_.token_indices,
                                                      .is_q8 = request_.is_q8,
                                                      .carrier = request_.carrier,
                                                      .d_model = request_.d_model,
                                                      .outputs = outputs_,
                                                      .terms = request_.terms,
                                                      .identity = identity_}});
}

void Execution::on_signed(const work::SignedReceipt& result, Outbox& out) {
  if (phase_ != Phase::signing) return;
  finish(ExecutionOutcome{outputs_, result.receipt_json, result.receipt2_json}, out);
}

void Execution::on_tick(Instant now, Outbox& out) {
  if (phase_ == Phase::finished || now < request_.deadline) return;
  finish(fail(ErrorCode::infrastructure, "", "moe execute: deadline exceeded"), out);
}

std::optional<Instant> Execution::next_deadline() const {
  if (phase_ == Phase::finished) return std::nullopt;
  return request_.deadline;
}

void Execution::finish(Result<ExecutionOutcome> outcome, Outbox& out) {
  phase_ = Phase::finished;
  out.emplace_back(ExecutionFinished{std::move(outcome)});
}

}  // namespace tenzro::forward
