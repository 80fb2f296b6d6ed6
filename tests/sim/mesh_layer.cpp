#include "sim/mesh_layer.hpp"

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::testing {
namespace {

const ModelId kModel = "mesh-model";

/// Uniform in (-bound, bound).
std::vector<float> random_values(Prng& prng, std::size_t count, float bound) {
  std::vector<float> values(count);
  constexpr std::uint64_t kSteps = 1U << 20U;
  for (float& value : values) {
    value = bound * (2.0F * static_cast<float>(prng.below(kSteps)) / float{kSteps} - 1.0F);
  }
  return values;
}

/// A random matrix in the given type; `bytes` keeps its storage.
compute::MatrixView random_matrix(Prng& prng, tensor::WeightType type, std::uint32_t rows,
                                  std::uint32_t cols, std::vector<std::byte>& bytes) {
  const std::vector<float> values = random_values(prng, std::size_t{rows} * cols, 0.3F);
  const std::size_t row_bytes = tensor::row_bytes(type, cols);
  bytes.resize(rows * row_bytes);
  for (std::uint32_t r = 0; r < rows; ++r) {
    tensor::encode_row(type, std::span(values).subspan(std::size_t{r} * cols, cols),
                       std::span(bytes).subspan(r * row_bytes, row_bytes));
  }
  return {type, rows, cols, bytes};
}

BufferRef random_expert(Prng& prng, tensor::WeightType type) {
  std::vector<std::byte> gate;
  std::vector<std::byte> up;
  std::vector<std::byte> down;
  compute::ExpertView view;
  view.gate = random_matrix(prng, type, kMeshFfn, kMeshWidth, gate);
  view.up = random_matrix(prng, type, kMeshFfn, kMeshWidth, up);
  view.down = random_matrix(prng, type, kMeshWidth, kMeshFfn, down);
  return BufferRef::copy_of(wire::make_expert_blob(view));
}

}  // namespace

MeshLayer make_mesh_layer(std::uint64_t seed, tensor::WeightType type) {
  Prng prng(seed);
  MeshLayer layer;
  std::vector<std::byte> router;
  wire::GateBlob gate;
  gate.num_experts = kMeshExperts;
  gate.d_model = kMeshWidth;
  gate.spec.declared = true;
  gate.spec.top_k = kMeshTopK;
  gate.spec.shared_count = 1;
  gate.router = random_matrix(prng, tensor::WeightType::f32, kMeshExperts, kMeshWidth, router);
  layer.gate = BufferRef::copy_of(wire::make_gate_blob(gate));
  for (std::uint32_t e = 0; e <= kMeshExperts; ++e) {
    layer.experts.push_back(random_expert(prng, type));
  }
  return layer;
}

rpc::ForwardCall mesh_forward(std::uint64_t seed, std::uint32_t tokens) {
  Prng prng(seed);
  const std::vector<float> rows = random_values(prng, std::size_t{tokens} * kMeshWidth, 1.0F);
  rpc::ForwardCall call;
  call.route.key = {kModel, 0};
  call.route.d_model = kMeshWidth;
  call.route.hidden = {tokens, kMeshWidth, BufferRef::copy_of(std::as_bytes(std::span(rows)))};
  return call;
}

rpc::GateLoadCall mesh_gate_load(const MeshLayer& layer) {
  return {.key = {kModel, 0}, .has_inline = true, .blob = layer.gate};
}

rpc::ExpertLoadCall mesh_expert_load(const MeshLayer& layer, ExpertIndex expert) {
  return {.key = {kModel, 0, expert}, .has_inline = true, .blob = layer.experts[expert]};
}

}  // namespace tenzro::testing
