#include <algorithm>
#include <utility>

#include "tenzro/wire/uri.hpp"

#include "job.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::size_t kGate = 0;
constexpr std::size_t kUp = 1;
constexpr std::size_t kDown = 2;

}  // namespace

std::vector<std::string> Job::expert_tensors(ExpertIndex expert) const {
  std::vector<std::string> tensors;
  for (const Projection projection : {Projection::gate, Projection::up, Projection::down}) {
    tensors.push_back(checkpoint_.expert_name(call_.layer, expert, projection));
  }
  return tensors;
}

std::vector<std::string> Job::gate_tensors() const {
  std::vector<std::string> tensors{checkpoint_.router_name(call_.layer)};
  if (checkpoint_.has_selection_bias) tensors.push_back(checkpoint_.bias_name(call_.layer));
  return tensors;
}

std::vector<std::string> Job::wanted_tensors() const {
  std::vector<std::string> tensors;
  if (call_.include_gate) tensors = gate_tensors();
  for (const ExpertIndex expert : experts_) {
    for (std::string& tensor : expert_tensors(expert)) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Status Job::check_shape(const std::string& tensor, std::vector<std::uint64_t> shape) const {
  const auto it = located_.find(tensor);
  if (it == located_.end()) {
    return fail(ErrorCode::runtime, single_file_, "tensor '" + tensor + "' is missing");
  }
  const Located& located = it->second;
  if (located.info.shape != shape) {
    return fail(ErrorCode::runtime, located.file,
                "tensor '" + tensor + "' has shape " + tensor::shape_text(located.info.shape) +
                    ", expected " + tensor::shape_text(shape));
  }
  const tensor::DType dtype = located.info.dtype;
  if (dtype != tensor::DType::f32 && dtype != tensor::DType::f16 && dtype != tensor::DType::bf16) {
    return fail(ErrorCode::runtime, located.file,
                "tensor '" + tensor + "' has unsupported dtype " + std::string(name_of(dtype)) +
                    " (want F32, F16, or BF16)");
  }
  return {};
}

Status Job::check_shapes() const {
  Status status;
  if (call_.include_gate) {
    const std::vector<std::string> tensors = gate_tensors();
    status = check_shape(tensors[0], {checkpoint_.num_experts, checkpoint_.hidden});
    if (status && tensors.size() > 1) status = check_shape(tensors[1], {checkpoint_.num_experts});
  }
  for (const ExpertIndex expert : experts_) {
    const std::uint32_t ffn = checkpoint_.ffn_width(expert);
    const std::vector<std::string> tensors = expert_tensors(expert);
    if (status) status = check_shape(tensors[kGate], {ffn, checkpoint_.hidden});
    if (status) status = check_shape(tensors[kUp], {ffn, checkpoint_.hidden});
    if (status) status = check_shape(tensors[kDown], {checkpoint_.hidden, ffn});
    if (!status) break;
  }
  return status;
}

void Job::begin_reading(Outbox& out) {
  if (auto status = check_shapes(); !status) {
    refuse(status.error(), out);
    return;
  }
  layer_bytes_ = source_bytes();
  bytes_left_of_layer_ = layer_bytes_;
  log(out);  // with what the files are now
  ask({Purpose::space}, work::CheckSpace{blob_bytes()}, out);
}

void Job::on_space(Outbox& out) {
  if (call_.include_gate && !gates_done_.contains(call_.layer)) begin_gate(out);
  for (std::size_t i = 0; i < options_.experts_in_flight; ++i) next_expert(out);
  finish_layer_if_done(out);
}

void Job::begin_parts(Parts& parts, Pending pending, const std::vector<std::string>& tensors,
                      Outbox& out) {
  parts.missing = tensors.size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Located& located = located_.at(tensors[i]);
    const std::vector<std::uint64_t>& shape = located.info.shape;
    parts.matrices.push_back({.tensor = tensors[i],
                              .dtype = located.info.dtype,
                              .rows = shape.size() == 2 ? static_cast<std::uint32_t>(shape[0]) : 1,
                              .cols = static_cast<std::uint32_t>(shape.back())});
    pending.part = i;
    ask(pending, SourceRead{located.file, located.info.begin, located.info.bytes(), false}, out);
  }
}

void Job::begin_gate(Outbox& out) {
  begin_parts(gate_parts_, {Purpose::gate_part}, gate_tensors(), out);
}

void Job::begin_expert(ExpertIndex expert, Outbox& out) {
  begin_parts(parts_[expert], {Purpose::expert_part, expert}, expert_tensors(expert), out);
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
  const bool is_gate = pending.purpose == Purpose::gate_part;
  Parts& parts = is_gate ? gate_parts_ : parts_.at(pending.expert);
  parts.matrices[pending.part].bytes = bytes.bytes;
  bytes_left_of_layer_ -= std::min<std::uint64_t>(bytes_left_of_layer_, bytes.bytes.size());
  if (--parts.missing > 0) return;
  if (is_gate) {
    build_gate(out);
  } else {
    build_expert(pending.expert, out);
  }
}

void Job::build_gate(Outbox& out) {
  work::BuildGateBlob job{.spec = checkpoint_.router, .weight = std::move(gate_parts_.matrices[0])};
  if (gate_parts_.matrices.size() > 1) job.bias = std::move(gate_parts_.matrices[1]);
  gate_parts_.matrices.clear();
  ask({Purpose::gate_build}, std::move(job), out);
}

void Job::build_expert(ExpertIndex expert, Outbox& out) {
  std::vector<work::SourceMatrix>& matrices = parts_.at(expert).matrices;
  work::BuildExpertBlob job{.spec = checkpoint_.ffn,
                            .gate = std::move(matrices[kGate]),
                            .up = std::move(matrices[kUp]),
                            .down = std::move(matrices[kDown]),
                            .strict = call_.strict};
  matrices.clear();
  if (call_.quant) {
    job.gate_quant = call_.quant->gate;
    job.up_quant = call_.quant->up;
    job.down_quant = call_.quant->down;
  }
  ask({Purpose::expert_build, expert}, std::move(job), out);
}

void Job::on_built(const Pending& pending, const work::BuiltExpertBlob& built, Outbox& out) {
  const work::ExpertFacts facts{
      .gate_type = built.gate_type, .up_type = built.up_type, .down_type = built.down_type};
  Parts& parts = parts_.at(pending.expert);
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
  Parts& parts = is_gate ? gate_parts_ : parts_.at(pending.expert);
  parts.blob.uri = wire::format_blob_uri(published.hash);
  parts.blob.bytes = published.size_bytes;
  const Purpose load = is_gate ? Purpose::gate_load : Purpose::expert_load;
  if (call_.loads) return ask_load({load, pending.expert}, parts.blob, std::move(parts.bytes), out);
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
