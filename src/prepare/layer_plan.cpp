#include "layer_plan.hpp"

#include <cmath>
#include <utility>

#include "layer_names.hpp"
#include "matrix_finder.hpp"

namespace tenzro::prepare {
namespace {

using work::SourceMatrix;

/// Keeps the first error of several steps.
class Steps {
 public:
  template <typename To>
  void take(Result<SourceMatrix> found, To& to) {
    if (!found && !error_) error_ = std::move(found.error());
    if (found) to = std::move(*found);
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<Error> error_;
};

/// What the stems of one expert hold.
struct ExpertShape {
  std::uint32_t width = 0;
  std::uint32_t ffn = 0;
  std::uint32_t slabs = 0;
  std::uint32_t slab = 0;
};

ExpertShape shape_of(const Checkpoint& checkpoint, const ExpertNames& names, ExpertIndex expert) {
  if (expert == checkpoint.num_experts) return {checkpoint.hidden, checkpoint.shared_ffn};
  ExpertShape shape{checkpoint.expert_width, checkpoint.expert_ffn};
  if (names.storage != Storage::each) {
    shape.slabs = checkpoint.num_experts;
    shape.slab = expert;
  }
  return shape;
}

/// Gate and up rows of a fused matrix of 2 x ffn rows.
void split(const ExpertNames& names, std::uint32_t ffn, std::optional<SourceMatrix>& gate,
           SourceMatrix& up) {
  up.rows = ffn;
  up.row_step = names.alternates ? 2 : 1;
  gate = up;
  up.first_row = names.alternates ? 1 : ffn;
}

/// A fused bias is one row of 2 x ffn values: as many rows of one value, of which half are taken.
void split_bias(const ExpertNames& names, std::uint32_t ffn, std::optional<SourceMatrix>& gate,
                std::optional<SourceMatrix>& up) {
  if (!up) return;
  up->stored_rows = up->cols;
  up->cols = 1;
  split(names, ffn, gate, *up);
}

/// The bias that is there, or must be.
std::optional<std::string> bias_name(const ExpertNames& names, const std::string& stem,
                                     const FindTensor& find) {
  for (std::string name : {stem + "_bias", stem + ".bias"}) {
    if (find(name) != nullptr) return name;
  }
  return names.has_biases ? std::optional(stem + "_bias") : std::nullopt;
}

void plan_biases(const ExpertStems& stems, const ExpertShape& shape, const FindTensor& find,
                 MatrixFinder& finder, Steps& steps, work::BuildExpertBlob& job) {
  const bool is_fused = stems.names->storage == Storage::fused_slabs;
  const auto plan = [&](const std::string& stem, std::uint32_t size, auto& to) {
    const auto name = stem.empty() ? std::nullopt : bias_name(*stems.names, stem, find);
    if (name) steps.take(finder.vector(*name, size, shape.slabs, shape.slab), to);
  };
  plan(stems.gate, shape.ffn, job.gate_bias);
  plan(stems.up, is_fused ? 2 * shape.ffn : shape.ffn, job.up_bias);
  plan(stems.down, shape.width, job.down_bias);
  if (is_fused) split_bias(*stems.names, shape.ffn, job.gate_bias, job.up_bias);
}

/// A scale beside a GGUF matrix multiplies it (NVFP4 has one), unless it is the gate's.
Status check_unscaled(const Checkpoint& checkpoint, const LayerNames& names,
                      const ExpertStems& stems, const FindTensor& find) {
  if (!checkpoint.is_gguf) return {};
  const auto of_gate = names.gate_tensor(checkpoint.family->gate.per_expert_scale);
  for (const std::string& stem : {stems.gate, stems.up, stems.down}) {
    const std::string scale = stem + ".scale";
    if (stem.empty() || scale == of_gate || find(scale) == nullptr) continue;
    std::string problem = "tensor '";
    problem.append(stem).append(".weight' has a scale of its own ('").append(scale);
    problem += "'), which is not supported";
    return fail(ErrorCode::runtime, stem + ".weight", std::move(problem));
  }
  return {};
}

}  // namespace

Result<ExpertPlan> plan_expert(const Checkpoint& checkpoint, LayerIndex layer, ExpertIndex expert,
                               const FindTensor& find) {
  const HasTensor has = [&](const std::string& name) { return find(name) != nullptr; };
  const LayerNames names(checkpoint, layer, has);
  const ExpertStems stems = names.expert(expert);
  if (const Status status = check_unscaled(checkpoint, names, stems, find); !status)
    return fail(status.error());
  const ExpertShape shape = shape_of(checkpoint, *stems.names, expert);
  const bool is_fused = stems.names->storage == Storage::fused_slabs;
  ExpertPlan plan;
  plan.job.label = "layer " + std::to_string(layer) + " expert " + std::to_string(expert);
  plan.job.spec = checkpoint.ffn;
  MatrixFinder finder(find, plan.reads);
  Steps steps;
  WantedMatrix wanted{.rows = is_fused ? 2 * shape.ffn : shape.ffn,
                      .cols = shape.width,
                      .slabs = shape.slabs,
                      .slab = shape.slab,
                      .plain_is_transposed = stems.names->plain_is_transposed};
  if (!stems.gate.empty()) steps.take(finder.matrix(stems.gate, wanted), plan.job.gate);
  steps.take(finder.matrix(stems.up, wanted), plan.job.up);
  if (is_fused) split(*stems.names, shape.ffn, plan.job.gate, plan.job.up);
  wanted.rows = shape.width;
  wanted.cols = shape.ffn;
  steps.take(finder.matrix(stems.down, wanted), plan.job.down);
  plan_biases(stems, shape, find, finder, steps, plan.job);
  if (steps.error()) return fail(*steps.error());
  plan.job.parts.resize(plan.reads.size());
  return plan;
}

Result<GatePlan> plan_gate(const Checkpoint& checkpoint, LayerIndex layer, const FindTensor& find) {
  const HasTensor has = [&](const std::string& name) { return find(name) != nullptr; };
  const LayerNames names(checkpoint, layer, has);
  const GateNames& gate = checkpoint.family->gate;
  const std::uint32_t experts = checkpoint.num_experts;
  const std::uint32_t hidden = checkpoint.hidden;
  GatePlan plan;
  plan.job.label = "layer " + std::to_string(layer);
  plan.job.spec = checkpoint.router;
  MatrixFinder finder(find, plan.reads);
  Steps steps;
  steps.take(finder.plain(*names.gate_tensor(gate.router), experts, hidden), plan.job.weight);
  const auto vector = [&](std::string_view pattern, std::uint32_t size, auto& to) {
    const auto name = names.gate_tensor(pattern);
    if (name) steps.take(finder.vector(*name, size, 0, 0), to);
  };
  const auto matrix = [&](std::string_view pattern, std::uint32_t rows, std::uint32_t cols,
                          auto& to) {
    const auto name = names.gate_tensor(pattern);
    if (name) steps.take(finder.plain(*name, rows, cols), to);
  };
  if (checkpoint.is_hash_routed(layer)) {
    const auto table = names.gate_tensor(gate.table);
    if (table) steps.take(finder.table(*table, *checkpoint.router.top_k), plan.job.table);
  } else if (!checkpoint.is_gguf || names.has(gate.bias)) {
    vector(gate.bias, experts, plan.job.bias);
  }
  vector(gate.per_expert_scale, experts, plan.job.per_expert_scale);
  vector(gate.input_scale, hidden, plan.job.input_scale);
  if (checkpoint.router.shared_gate != wire::SharedGate::none) {
    matrix(gate.shared_gate, 1, hidden, plan.job.shared_gate);
  }
  if (checkpoint.is_latent()) {
    matrix(gate.latent_down, checkpoint.expert_width, hidden, plan.job.latent_down);
    vector(gate.latent_norm, checkpoint.expert_width, plan.job.latent_norm);
    matrix(gate.latent_up, hidden, checkpoint.expert_width, plan.job.latent_up);
  }
  if (steps.error()) return fail(*steps.error());
  if (checkpoint.family->divides_by_root_width) {
    plan.job.input_scale_factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden)));
  }
  plan.job.parts.resize(plan.reads.size());
  return plan;
}

}  // namespace tenzro::prepare
