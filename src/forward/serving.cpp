#include "tenzro/forward/serving.hpp"

#include <algorithm>

#include "tenzro/base/bytes.hpp"

namespace tenzro::forward {
namespace {

/// When a busy node may be asked again. Why a constant: the queue's own time is not known.
constexpr std::uint32_t kRetryAfterMs = 50;

wire::ExecFailure failure_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_params:
    case ErrorCode::invalid_request:
    case ErrorCode::parse_error:
      return wire::ExecFailure::bad_request;
    case ErrorCode::runtime:
      return wire::ExecFailure::execution;
    case ErrorCode::forbidden:
      return wire::ExecFailure::not_allowed;
    default:
      return wire::ExecFailure::not_possible;
  }
}

}  // namespace

std::vector<BufferRef> exec_refusal(const Error& error) {
  wire::ExecReply reply{.status = wire::ExecStatus::failed, .text = error.message()};
  if (error.code == ErrorCode::busy) {
    reply.status = wire::ExecStatus::busy;
    reply.retry_after_ms = kRetryAfterMs;
  } else {
    reply.failure = failure_of(error.code);
  }
  return wire::encode_exec_reply(reply);
}

Serving::Serving(ServeRequest request, work::JobIds& ids)
    : request_(std::move(request)), ids_(ids), deadline_(request_.arrived + request_.budget_max) {}

void Serving::start(Outbox& out) {
  out.emplace_back(Run{ids_.next(), work::DecodeExec{std::move(request_.message)}});
}

void Serving::on_decoded(const work::DecodedExec& decoded, Outbox& out) {
  if (phase_ != Phase::decoding) return;
  asked_ = decoded.request;
  const auto& profiles = request_.profiles;
  if (std::find(profiles.begin(), profiles.end(), asked_->profile) == profiles.end()) {
    on_failed(
        {ErrorCode::invalid_params, "",
         "this node does not run the profile " + std::string(compute::name_of(asked_->profile))},
        out);
    return;
  }
  phase_ = Phase::running;
  input_ = decoded.input;
  const Duration budget = std::chrono::milliseconds(asked_->budget_ms);
  deadline_ = request_.arrived + std::min(budget, request_.budget_max);
  parts_.resize(asked_->batches.size());
  Acquire acquire;
  for (const wire::ExecBatch& batch : asked_->batches) acquire.experts.push_back(batch.expert);
  out.emplace_back(std::move(acquire));
}

std::optional<std::size_t> Serving::find(ExpertIndex expert) const {
  const auto& batches = asked_->batches;
  const auto at = std::lower_bound(
      batches.begin(), batches.end(), expert,
      [](const wire::ExecBatch& batch, ExpertIndex wanted) { return batch.expert < wanted; });
  if (at == batches.end() || at->expert != expert) return std::nullopt;
  return static_cast<std::size_t>(at - batches.begin());
}

std::optional<Error> Serving::fault(std::size_t at) const {
  const wire::ExecBatch& batch = asked_->batches[at];
  const work::ExpertIdentity& identity = parts_[at].identity;
  const std::string name =
      "expert l" + std::to_string(asked_->layer.layer) + "/e" + std::to_string(batch.expert);
  if (identity.facts.d_model != asked_->width) {
    return Error{ErrorCode::invalid_params, "width",
                 std::to_string(asked_->width) + " is not that of " + name + ", " +
                     std::to_string(identity.facts.d_model)};
  }
  if (batch.blob && *batch.blob != identity.blob) {
    return Error{ErrorCode::runtime, "", name + " is held here from another blob"};
  }
  return std::nullopt;
}

void Serving::on_expert_ready(ExpertIndex expert,
                              std::shared_ptr<const compute::ResidentExpert> resident,
                              work::ExpertIdentity identity, Outbox& out) {
  if (phase_ != Phase::running) return;
  const auto at = find(expert);
  if (!at || parts_[*at].resident != nullptr) return;
  parts_[*at].resident = std::move(resident);
  parts_[*at].identity = identity;
  if (const auto error = fault(*at)) on_failed(*error, out);
}

void Serving::on_expert_unavailable(const Error& error, Outbox& out) {
  if (phase_ == Phase::running) on_failed(error, out);
}

void Serving::advance(Outbox& out) {
  if (phase_ != Phase::running) return;
  work::RunExperts job{.profile = asked_->profile, .input = input_, .width = asked_->width};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.resident == nullptr || part.has_started) continue;
    part.has_started = true;
    job.batches.push_back({asked_->batches[i].expert, part.resident, asked_->batches[i].rows});
  }
  if (job.batches.empty()) return;
  job.token_names = asked_->tokens;
  out.emplace_back(Run{ids_.next(), std::move(job)});
}

void Serving::on_experts_done(const work::ExpertsResult& result, Outbox& out) {
  if (phase_ != Phase::running) return;
  std::uint64_t pairs = 0;
  for (const work::ExpertOutput& output : result.outputs) {
    const auto at = find(output.expert);
    if (!at || !parts_[*at].outputs.empty()) continue;
    parts_[*at].outputs = output.values;
    parts_[*at].resident.reset();
    pairs += output.rows.size();
    ++done_;
    out.emplace_back(Release{output.expert});
  }
  out.emplace_back(Metered{pairs});
  if (done_ == parts_.size()) sign(out);
}

void Serving::sign(Outbox& out) {
  phase_ = Phase::signing;
  work::SignExec job{.request = asked_, .router = request_.router};
  for (Part& part : parts_) {
    job.identities.push_back(part.identity);
    job.outputs.push_back(std::move(part.outputs));
  }
  out.emplace_back(Run{ids_.next(), std::move(job)});
}

void Serving::on_signed(const work::SignedExec& result, Outbox& out) {
  if (phase_ == Phase::signing) finish(result.reply, true, out);
}

void Serving::on_failed(const Error& error, Outbox& out) {
  if (phase_ != Phase::finished) finish(exec_refusal(error), false, out);
}

void Serving::on_tick(Instant now, Outbox& out) {
  if (phase_ == Phase::finished || now < deadline_) return;
  on_failed({ErrorCode::infrastructure, "", "moe execute: deadline exceeded"}, out);
}

std::optional<Instant> Serving::next_deadline() const {
  if (phase_ == Phase::finished) return std::nullopt;
  return deadline_;
}

void Serving::finish(std::vector<BufferRef> reply, bool is_served, Outbox& out) {
  phase_ = Phase::finished;
  parts_.clear();
  out.emplace_back(ServingFinished{std::move(reply), is_served});
}

}  // namespace tenzro::forward
