#pragma once
/// \file
/// A layer with random weights, made from a seed: a softmax gate over SwiGLU experts and one shared
/// expert, quantised or dense. Large enough that a wrong row, expert or order changes the bits.
#include <cstdint>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/rpc/call.hpp"
#include "tenzro/tensor/dtype.hpp"

namespace tenzro::testing {

inline constexpr std::uint32_t kMeshWidth = 64;
inline constexpr std::uint32_t kMeshFfn = 32;
inline constexpr std::uint32_t kMeshExperts = 8;
inline constexpr std::uint32_t kMeshTopK = 3;

struct MeshLayer {
  BufferRef gate;
  /// kMeshExperts routed ones, then the shared one.
  std::vector<BufferRef> experts;
};

[[nodiscard]] MeshLayer make_mesh_layer(std::uint64_t seed,
                                        tensor::WeightType type = tensor::WeightType::q8_0);

/// `tokens` random rows.
[[nodiscard]] rpc::ForwardCall mesh_forward(std::uint64_t seed, std::uint32_t tokens);

[[nodiscard]] rpc::GateLoadCall mesh_gate_load(const MeshLayer& layer);
[[nodiscard]] rpc::ExpertLoadCall mesh_expert_load(const MeshLayer& layer, ExpertIndex expert);

}  // namespace tenzro::testing
