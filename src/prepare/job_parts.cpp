#include "tenzro/base/assert.hpp"
#include "tenzro/wire/uri.hpp"

#include "job.hpp"

namespace tenzro::prepare {

FindTensor Job::finder() const {
  return [this](const std::string& tensor) -> const work::SourceTensor* {
    const auto it = located_.find(tensor);
    return it == located_.end() ? nullptr : &it->second.info;
  };
}

Error Job::in_file(Error error) const {
  const auto it = located_.find(error.where);
  if (it != located_.end()) {
    error.where = it->second.file;
  } else if (call_.imatrix &&
             (error.where.ends_with(".in_sum2") || error.where.ends_with(".counts"))) {
    error.where = *call_.imatrix;
  } else {
    error.where = single_file_.empty() ? "model.safetensors.index.json" : single_file_;
  }
  return error;
}

Result<ExpertPlan> Job::plan_of(ExpertIndex expert) const {
  const FindTensor find = finder();
  auto plan = plan_expert(checkpoint_, call_.layer, expert, find);
  if (!plan || !call_.imatrix) return plan;
  auto status = plan_importance(checkpoint_, call_.layer, expert, find, *plan);
  if (!status) return fail(status.error());
  return plan;
}

Status Job::check_plans() const {
  const FindTensor find = finder();
  if (call_.include_gate) {
    if (const auto gate = plan_gate(checkpoint_, call_.layer, find); !gate) {
      return fail(in_file(gate.error()));
    }
  }
  for (const ExpertIndex expert : experts_) {
    const auto plan = plan_of(expert);
    if (!plan) return fail(in_file(plan.error()));
  }
  return {};
}

void Job::begin_reading(Outbox& out) {
  if (auto status = check_plans(); !status) {
    refuse(status.error(), out);
    return;
  }
  if (call_.include_gate) begin_gate(out);
  for (std::size_t i = 0; i < options_.experts_in_flight; ++i) next_expert(out);
  finish_if_done();  // no expert and no gate were asked for
}

void Job::begin_reads(const std::vector<Read>& reads, Pending pending, Outbox& out) {
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const Read& read = reads[i];
    pending.part = i;
    ask(pending,
        work::ReadSource{root_, located_.at(read.tensor).file, read.begin, read.end - read.begin,
                         false},
        out);
  }
}

void Job::begin_gate(Outbox& out) {
  auto plan = plan_gate(checkpoint_, call_.layer, finder());
  TENZRO_ASSERT(plan.has_value());  // check_plans saw it
  gate_parts_.plan = std::move(*plan);
  gate_parts_.missing = gate_parts_.plan.reads.size();
  begin_reads(gate_parts_.plan.reads, {Purpose::gate_part}, out);
}

void Job::begin_expert(ExpertIndex expert, Outbox& out) {
  auto plan = plan_of(expert);
  TENZRO_ASSERT(plan.has_value());  // check_plans saw it
  Parts<ExpertPlan>& parts = parts_[expert];
  parts.plan = std::move(*plan);
  parts.missing = parts.plan.reads.size();
  begin_reads(parts.plan.reads, {Purpose::expert_part, expert}, out);
}

void Job::next_expert(Outbox& out) {
  if (next_ < experts_.size()) begin_expert(experts_[next_++], out);
}

void Job::finish_if_done() {
  const bool has_gate = !call_.include_gate || gate_done_.has_value();
  if (has_gate && done_.size() == experts_.size())
    finish(rpc::PrepareState::completed, std::nullopt);
}

void Job::on_part(const Pending& pending, const work::ReadBytes& bytes, Outbox& out) {
  if (pending.purpose == Purpose::gate_part) {
    gate_parts_.plan.job.parts[pending.part] = bytes.bytes;
    if (--gate_parts_.missing == 0) build_gate(out);
    return;
  }
  Parts<ExpertPlan>& parts = parts_.at(pending.expert);
  parts.plan.job.parts[pending.part] = bytes.bytes;
  if (--parts.missing == 0) build_expert(pending.expert, out);
}

void Job::build_gate(Outbox& out) {
  ask({Purpose::gate_build}, std::move(gate_parts_.plan.job), out);
  gate_parts_.plan = {};
}

void Job::build_expert(ExpertIndex expert, Outbox& out) {
  work::BuildExpertBlob job = std::move(parts_.at(expert).plan.job);
  parts_.at(expert).plan = {};
  job.strict = call_.strict;
  job.dense_f32 = call_.dense_f32;
  if (call_.quant) {
    job.gate_quant = call_.quant->gate;
    job.up_quant = call_.quant->up;
    job.down_quant = call_.quant->down;
  }
  ask({Purpose::expert_build, expert}, std::move(job), out);
}

void Job::on_published(const Pending& pending, const work::Published& published, Outbox& out) {
  rpc::PreparedBlob blob;
  if (pending.purpose == Purpose::expert_publish) blob = std::move(parts_.at(pending.expert).blob);
  blob.expert = pending.expert;
  blob.uri = wire::format_blob_uri(published.hash);
  blob.bytes = published.size_bytes;
  if (pending.purpose == Purpose::gate_publish) {
    gate_done_ = std::move(blob);
  } else {
    parts_.erase(pending.expert);
    done_.emplace(pending.expert, std::move(blob));
    next_expert(out);
  }
  finish_if_done();
}

}  // namespace tenzro::prepare
