#include "support/family_layer.hpp"

#include <cmath>

namespace tenzro::testing {

namespace {

using compute::Activation;
using compute::ExpertView;
using compute::FfnSpec;
using compute::MatrixView;

/// Names of an expert's projections; an empty gate name = there is none.
struct Projections {
  std::string gate;
  std::string up;
  std::string down;
};

const Projections kNamed{"gate_proj", "up_proj", "down_proj"};
const Projections kNumbered{"w1", "w3", "w2"};
const Projections kTwo{"", "up_proj", "down_proj"};

/// What the families that divide by (sum + epsilon) add.
constexpr double kEpsilon = 1e-20;

FamilyLayer start(const Tensors& tensors, const std::string& router, const wire::RouterSpec& spec) {
  FamilyLayer layer;
  layer.tensors = tensors;
  layer.copies = std::make_shared<std::deque<std::vector<float>>>();
  layer.gate.spec = spec;
  layer.gate.spec.declared = true;
  layer.gate.router = tensors->matrix(router);
  layer.gate.num_experts = layer.gate.router.rows;
  layer.gate.d_model = layer.gate.router.cols;
  return layer;
}

ExpertView separate_expert(const TensorTable& tensors, const std::string& prefix,
                           const Projections& names, const FfnSpec& spec) {
  ExpertView expert;
  expert.spec = spec;
  if (!names.gate.empty()) expert.gate = tensors.matrix(prefix + names.gate + ".weight");
  expert.up = tensors.matrix(prefix + names.up + ".weight");
  expert.down = tensors.matrix(prefix + names.down + ".weight");
  return expert;
}

void add_separate(FamilyLayer& layer, const std::string& prefix, const Projections& names,
                  const FfnSpec& spec) {
  for (std::uint32_t e = 0; e < layer.gate.num_experts; ++e) {
    const std::string expert = prefix + "experts." + std::to_string(e) + ".";
    layer.experts.push_back(separate_expert(*layer.tensors, expert, names, spec));
  }
}

/// experts.gate_up_proj [E, 2F, H], gate rows first; experts.down_proj [E, H, F].
void add_slabs(FamilyLayer& layer, const std::string& prefix, const FfnSpec& spec) {
  const TensorTable& tensors = *layer.tensors;
  const std::string gate_up = prefix + "experts.gate_up_proj";
  const std::string down = prefix + "experts.down_proj";
  const std::uint64_t d_ff = tensors.info(gate_up).shape[1] / 2;
  for (std::uint32_t e = 0; e < layer.gate.num_experts; ++e) {
    ExpertView expert;
    expert.spec = spec;
    expert.gate = tensors.slab_rows(gate_up, e, 0, d_ff);
    expert.up = tensors.slab_rows(gate_up, e, d_ff, d_ff);
    expert.down = tensors.slab_rows(down, e, 0, tensors.info(down).shape[1]);
    layer.experts.push_back(expert);
  }
}

void add_shared(FamilyLayer& layer, const std::string& prefix, const Projections& names,
                const FfnSpec& spec) {
  layer.gate.spec.shared_count = 1;
  layer.experts.push_back(separate_expert(*layer.tensors, prefix, names, spec));
}

std::span<const float> keep(FamilyLayer& layer, std::vector<float> values) {
  layer.copies->push_back(std::move(values));
  return layer.copies->back();
}

/// Columns first, first + step, ... of `from` [rows, cols], as rows.
MatrixView transposed(FamilyLayer& layer, std::span<const float> from, std::size_t cols,
                      std::size_t first, std::size_t step) {
  const std::size_t rows = from.size() / cols;
  std::vector<float> out;
  for (std::size_t c = first; c < cols; c += step) {
    for (std::size_t r = 0; r < rows; ++r) out.push_back(from[r * cols + c]);
  }
  const auto taken = static_cast<std::uint32_t>(out.size() / rows);
  return {.type = tensor::WeightType::f32,
          .rows = taken,
          .cols = static_cast<std::uint32_t>(rows),
          .bytes = std::as_bytes(keep(layer, std::move(out)))};
}

std::vector<float> every_second(std::span<const float> from, std::size_t first) {
  std::vector<float> out;
  for (std::size_t i = first; i < from.size(); i += 2) out.push_back(from[i]);
  return out;
}

wire::RouterSpec softmax_spec(std::uint32_t top_k, bool normalize) {
  wire::RouterSpec spec;
  spec.normalize = normalize;
  spec.top_k = top_k;
  return spec;
}

wire::RouterSpec sigmoid_spec(std::uint32_t top_k, double scale) {
  wire::RouterSpec spec;
  spec.scoring = wire::Scoring::sigmoid;
  spec.epsilon = kEpsilon;
  spec.scale = scale;
  spec.top_k = top_k;
  return spec;
}

}  // namespace

FamilyLayer qwen3_layer(const Tensors& tensors, const std::string& prefix, std::uint32_t top_k,
                        bool normalize) {
  FamilyLayer layer = start(tensors, prefix + "gate.weight", softmax_spec(top_k, normalize));
  add_separate(layer, prefix, kNamed, {});
  return layer;
}

FamilyLayer qwen3_5_layer(const Tensors& tensors, const std::string& prefix, std::uint32_t top_k) {
  FamilyLayer layer = start(tensors, prefix + "gate.weight", softmax_spec(top_k, true));
  add_slabs(layer, prefix, {});
  add_shared(layer, prefix + "shared_expert.", kNamed, {});
  layer.gate.spec.shared_gate = wire::SharedGate::sigmoid;
  layer.gate.shared_gate = tensors->matrix(prefix + "shared_expert_gate.weight");
  return layer;
}

FamilyLayer deepseek_v3_layer(const Tensors& tensors, const std::string& prefix,
                              const DeepseekSpec& spec) {
  wire::RouterSpec router = sigmoid_spec(spec.top_k, spec.scale);
  router.n_group = spec.n_group;
  router.topk_group = spec.topk_group;
  router.normalize = spec.normalize;
  FamilyLayer layer = start(tensors, prefix + "gate.weight", router);
  layer.gate.bias = tensors->floats(prefix + "gate.e_score_correction_bias");
  for (float& bias : layer.gate.bias) bias += spec.bias_shift;
  add_separate(layer, prefix, kNamed, {});
  add_shared(layer, prefix + "shared_experts.", kNamed, {});
  return layer;
}

FamilyLayer deepseek_v4_layer(const Tensors& tensors, const std::string& prefix,
                              std::uint32_t top_k, double scale, float limit) {
  wire::RouterSpec router = sigmoid_spec(top_k, scale);
  router.scoring = wire::Scoring::sqrtsoftplus;
  FamilyLayer layer = start(tensors, prefix + "gate.weight", router);
  const std::string table = prefix + "gate.tid2eid";
  if (tensors->has(table)) {
    for (const std::int64_t id : tensors->integers(table)) {
      layer.gate.tid2eid.push_back(static_cast<std::uint32_t>(id));
    }
    layer.gate.tid2eid_top_k = top_k;
  } else {
    layer.gate.bias = tensors->floats(prefix + "gate.bias");
  }
  const FfnSpec ffn{.activation = Activation::silu_clamped, .limit = limit};
  add_separate(layer, prefix, kNumbered, ffn);
  add_shared(layer, prefix + "shared_experts.", kNumbered, ffn);
  return layer;
}

FamilyLayer gpt_oss_layer(const Tensors& tensors, const std::string& prefix, std::uint32_t top_k) {
  wire::RouterSpec router = softmax_spec(top_k, true);
  router.order = wire::SelectionOrder::topk_then_softmax;
  router.bias_on = wire::BiasOn::logits;
  FamilyLayer layer = start(tensors, prefix + "router.weight", router);
  layer.gate.bias = tensors->floats(prefix + "router.bias");
  // Stored [E, H, 2F] and [E, F, H], transposed; gate and up alternate on the last axis.
  const std::vector<float> gate_up = tensors->floats(prefix + "experts.gate_up_proj");
  const std::vector<float> gate_up_bias = tensors->floats(prefix + "experts.gate_up_proj_bias");
  const std::vector<float> down = tensors->floats(prefix + "experts.down_proj");
  const std::vector<float> down_bias = tensors->floats(prefix + "experts.down_proj_bias");
  const std::size_t width = layer.gate.d_model;
  const std::size_t twice = gate_up_bias.size() / layer.gate.num_experts;
  for (std::size_t e = 0; e < layer.gate.num_experts; ++e) {
    const auto slab = std::span(gate_up).subspan(e * width * twice, width * twice);
    const auto biases = std::span(gate_up_bias).subspan(e * twice, twice);
    const auto back = std::span(down).subspan(e * width * twice / 2, width * twice / 2);
    ExpertView expert;
    expert.spec.activation = Activation::swigluoai;
    expert.gate = transposed(layer, slab, twice, 0, 2);
    expert.up = transposed(layer, slab, twice, 1, 2);
    expert.down = transposed(layer, back, width, 0, 1);
    expert.gate_bias = keep(layer, every_second(biases, 0));
    expert.up_bias = keep(layer, every_second(biases, 1));
    const auto last = std::span(down_bias).subspan(e * width, width);
    expert.down_bias = keep(layer, {last.begin(), last.end()});
    layer.experts.push_back(expert);
  }
  return layer;
}

FamilyLayer gemma4_layer(const Tensors& tensors, const std::string& prefix, std::uint32_t top_k) {
  FamilyLayer layer = start(tensors, prefix + "router.proj.weight", softmax_spec(top_k, true));
  layer.gate.spec.input_norm = wire::InputNorm::rms;
  layer.gate.input_scale = tensors->floats(prefix + "router.scale");
  const auto fold = static_cast<float>(1.0 / std::sqrt(static_cast<double>(layer.gate.d_model)));
  for (float& scale : layer.gate.input_scale) scale *= fold;
  layer.gate.per_expert_scale = tensors->floats(prefix + "router.per_expert_scale");
  add_slabs(layer, prefix, {.activation = Activation::gelu_tanh});
  return layer;
}

FamilyLayer minimax_m1_layer(const Tensors& tensors, const std::string& prefix,
                             std::uint32_t top_k) {
  FamilyLayer layer = start(tensors, prefix + "gate.weight", softmax_spec(top_k, true));
  add_separate(layer, prefix, kNumbered, {});
  return layer;
}

FamilyLayer minimax_m3_layer(const Tensors& tensors, const std::string& prefix, std::uint32_t top_k,
                             double scale) {
  wire::RouterSpec router = sigmoid_spec(top_k, scale);
  router.scale_on = wire::ScaleOn::output;
  FamilyLayer layer = start(tensors, prefix + "gate.weight", router);
  layer.gate.bias = tensors->floats(prefix + "e_score_correction_bias");
  const FfnSpec ffn{.activation = Activation::swigluoai};
  add_separate(layer, prefix, kNumbered, ffn);
  add_shared(layer, prefix + "shared_experts.", kNamed, ffn);
  return layer;
}

FamilyLayer nemotron_layer(const Tensors& tensors, const std::string& prefix, std::uint32_t top_k,
                           double scale) {
  FamilyLayer layer = start(tensors, prefix + "gate.weight", sigmoid_spec(top_k, scale));
  layer.gate.bias = tensors->floats(prefix + "gate.e_score_correction_bias");
  const FfnSpec ffn{.activation = Activation::relu2};
  add_separate(layer, prefix, kTwo, ffn);
  add_shared(layer, prefix + "shared_experts.", kTwo, ffn);
  return layer;
}

FamilyLayer kimi_k3_layer(const Tensors& tensors, const std::string& prefix, std::uint32_t top_k) {
  FamilyLayer layer = start(tensors, prefix + "gate.weight", sigmoid_spec(top_k, 1.0));
  layer.gate.bias = tensors->floats(prefix + "gate.e_score_correction_bias");
  layer.gate.latent_down = tensors->matrix(prefix + "routed_expert_down_proj.weight");
  layer.gate.latent_norm = tensors->floats(prefix + "routed_expert_norm.weight");
  layer.gate.latent_up = tensors->matrix(prefix + "routed_expert_up_proj.weight");
  const FfnSpec ffn{.activation = Activation::situ};
  add_separate(layer, prefix, kNumbered, ffn);
  add_shared(layer, prefix + "shared_experts.", kNamed, ffn);
  layer.gate.spec.shared_count = 2;
  return layer;
}

}  // namespace tenzro::testing
