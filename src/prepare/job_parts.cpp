// Job: gates and experts of the layer at work, from plan to published blob.
#include <algorithm>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/wire/uri.hpp"

#include "blob_size.hpp"
#include "job.hpp"

namespace tenzro::prepare {

const Job::Located* Job::locate(const std::string& tensor) const {
  const auto in_layer = located_.find(tensor);
  if (in_layer != located_.end()) return &in_layer->second;
  const auto in_gguf = gguf_located_.find(tensor);
  return in_gguf == gguf_located_.end() ? nullptr : &in_gguf->second;
}

FindTensor Job::finder() const {
  return [this](const std::string& tensor) -> const work::SourceTensor* {
    const Located* located = locate(tensor);
    return located == nullptr ? nullptr : &located->info;
  };
}

Error Job::in_file(Error error) const {
  if (const Located* located = locate(error.where)) {
    error.where = located->file;
  } else if (call_.imatrix &&
             (error.where.ends_with(".in_sum2") || error.where.ends_with(".counts"))) {
    error.where = *call_.imatrix;
  } else {
    error.where = single_file_.empty() ? "model.safetensors.index.json" : single_file_;
  }
  return error;
}

/// Naming the tensor whose bytes were wanted: the reader knows its file alone.
Error Job::while_reading(const Pending& pending, Error error) const {
  const std::vector<Read>* reads = nullptr;
  if (pending.purpose == Purpose::gate_part) reads = &gate_parts_.plan.reads;
  if (pending.purpose == Purpose::expert_part) reads = &parts_.at(pending.expert).plan.reads;
  if (reads != nullptr)
    error.detail += " (reading tensor '" + reads->at(pending.part).tensor + "')";
  return error;
}

/// Naming the file of the tensor at fault: whoever builds a blob knows tensors alone.
Error Job::while_building(const Pending& pending, Error error) const {
  std::vector<Read> reads;
  if (pending.purpose == Purpose::gate_build) {
    if (auto plan = plan_gate(checkpoint_, call_.layer, finder())) reads = std::move(plan->reads);
  } else if (pending.purpose == Purpose::expert_build) {
    if (auto plan = plan_of(pending.expert)) reads = std::move(plan->reads);
  }
  for (const Read& read : reads) {
    if (error.detail.find("'" + read.tensor + "'") == std::string::npos) continue;
    error.where = locate(read.tensor)->file + ": " + error.where;
    break;
  }
  return error;
}

Result<ExpertPlan> Job::plan_of(ExpertIndex expert) const {
  const FindTensor find = finder();
  auto plan = plan_expert(checkpoint_, call_.layer, expert, find);
  if (!plan) return plan;
  if (call_.imatrix) {
    const Status weighed = plan_importance(checkpoint_, call_.layer, expert, find, *plan);
    if (!weighed) return fail(weighed.error());
  }
  plan->job.strict = call_.strict;
  plan->job.dense_f32 = call_.dense_f32;
  if (call_.quant) {
    plan->job.gate_quant = call_.quant->gate;
    plan->job.up_quant = call_.quant->up;
    plan->job.down_quant = call_.quant->down;
  }
  return plan;
}

Result<Job::Needs> Job::check_plans() const {
  Needs needs;
  const auto add = [&needs](const auto& plan) {
    for (const Read& read : plan.reads) needs.source_bytes += read.end - read.begin;
    needs.blob_bytes += blob_bytes_max(plan.job);
  };
  if (call_.include_gate) {
    const auto gate = plan_gate(checkpoint_, call_.layer, finder());
    if (!gate) return fail(in_file(gate.error()));
    if (!gates_done_.contains(call_.layer)) add(*gate);
  }
  for (const ExpertIndex expert : experts_) {
    const auto plan = plan_of(expert);
    if (!plan) return fail(in_file(plan.error()));
    if (!done_.contains({call_.layer, expert})) add(*plan);
  }
  return needs;
}

void Job::begin_reading(Outbox& out) {
  const auto needs = check_plans();
  if (!needs) {
    refuse(needs.error(), out);
    return;
  }
  layer_bytes_ = bytes_left_of_layer_ = needs->source_bytes;
  log(out);  // with what the files are now
  // As much for each layer that follows.
  ask({Purpose::space}, work::CheckSpace{needs->blob_bytes * (later_layers() + 1)}, out);
}

void Job::on_space(Outbox& out) {
  if (call_.include_gate && !gates_done_.contains(call_.layer)) begin_gate(out);
  for (std::size_t i = 0; i < options_.experts_in_flight; ++i) next_expert(out);
  finish_layer_if_done(out);
}

void Job::begin_reads(const std::vector<Read>& reads, Pending pending, Outbox& out) {
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const Read& read = reads[i];
    pending.part = i;
    ask(pending, SourceRead{locate(read.tensor)->file, read.begin, read.end - read.begin, false},
        out);
  }
}

void Job::begin_gate(Outbox& out) {
  auto plan = plan_gate(checkpoint_, call_.layer, finder());
  TENZRO_ASSERT(plan.has_value());  // check_plans saw it
  gate_parts_.missing = plan->reads.size();
  gate_parts_.plan = std::move(*plan);
  begin_reads(gate_parts_.plan.reads, {Purpose::gate_part}, out);
}

void Job::begin_expert(ExpertIndex expert, Outbox& out) {
  auto plan = plan_of(expert);
  TENZRO_ASSERT(plan.has_value());  // check_plans saw it
  Parts<ExpertPlan>& parts = parts_[expert];
  parts.missing = plan->reads.size();
  parts.plan = std::move(*plan);
  begin_reads(parts.plan.reads, {Purpose::expert_part, expert}, out);
}

void Job::next_expert(Outbox& out) {
  while (next_ < experts_.size() && done_.contains({call_.layer, experts_[next_]})) ++next_;
  if (next_ < experts_.size()) begin_expert(experts_[next_++], out);
}

void Job::finish_layer_if_done(Outbox& out) {
  if (!parts_.empty() || !is_layer_done(call_.layer)) return;
  earlier_bytes_ += layer_bytes_;
  ++earlier_layers_;
  layer_bytes_ = bytes_left_of_layer_ = 0;
  next_layer(out);
}

void Job::on_part(const Pending& pending, const work::ReadBytes& bytes, Outbox& out) {
  bytes_left_of_layer_ -= std::min<std::uint64_t>(bytes_left_of_layer_, bytes.bytes.size());
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
  GatePlan plan = std::exchange(gate_parts_.plan, {});
  ask({Purpose::gate_build}, std::move(plan.job), out);
}

void Job::build_expert(ExpertIndex expert, Outbox& out) {
  ExpertPlan plan = std::exchange(parts_.at(expert).plan, {});
  ask({Purpose::expert_build, expert}, std::move(plan.job), out);
}

void Job::on_built(const Pending& pending, const work::BuiltExpertBlob& built, Outbox& out) {
  const work::ExpertFacts facts{
      .gate_type = built.gate_type, .up_type = built.up_type, .down_type = built.down_type};
  Parts<ExpertPlan>& parts = parts_.at(pending.expert);
  parts.bytes = built.blob;
  parts.blob.layer = call_.layer;
  parts.blob.expert = pending.expert;
  parts.blob.quant = facts.coarsest_quant();
  parts.blob.gate_type = built.gate_type;
  parts.blob.up_type = built.up_type;
  parts.blob.down_type = built.down_type;
  ask({Purpose::expert_publish, pending.expert},
      work::PublishBlob{built.blob, work::JobPart{id_, part_name(call_.layer, pending.expert),
                                                  to_text(parts.blob)}},
      out);
}

void Job::on_published(const Pending& pending, const work::Published& published, Outbox& out) {
  const bool is_gate = pending.purpose == Purpose::gate_publish;
  Making& making = is_gate ? static_cast<Making&>(gate_parts_) : parts_.at(pending.expert);
  making.blob.uri = wire::format_blob_uri(published.hash);
  making.blob.bytes = published.size_bytes;
  const Purpose load = is_gate ? Purpose::gate_load : Purpose::expert_load;
  if (call_.loads)
    return ask_load({load, pending.expert}, making.blob, std::move(making.bytes), out);
  on_part_done({load, pending.expert}, out);
}

void Job::on_part_done(const Pending& pending, Outbox& out) {
  if (pending.purpose == Purpose::gate_load) {
    gates_done_.insert_or_assign(call_.layer, std::exchange(gate_parts_, {}).blob);
  } else {
    const Slot slot{call_.layer, pending.expert};
    done_.insert_or_assign(slot, parts_.extract(pending.expert).mapped().blob);
    next_expert(out);
  }
  finish_layer_if_done(out);
}

}  // namespace tenzro::prepare
