#pragma once
/// \file
/// What a checkpoint says of its MoE layers: the numbers of config.json (or of a GGUF file's
/// metadata) and the family whose names its tensors carry.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/catalog/model.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/tensor/gguf.hpp"
#include "tenzro/wire/gate_blob.hpp"

#include "family.hpp"

namespace tenzro::prepare {

/// No model is near these; they keep products of counts within 64 bits and loops short.
inline constexpr std::uint32_t kWidthMax = 1U << 20U;
inline constexpr std::uint32_t kExpertsMax = 1U << 16U;
inline constexpr std::uint32_t kLayersMax = 1U << 12U;
inline constexpr std::uint32_t kSharedMax = 1024;

struct Checkpoint {
  const Family* family = nullptr;
  std::string model_type;
  std::uint32_t hidden = 0;
  std::uint32_t expert_width = 0;  ///< what routed experts see: `hidden`, or the latent width
  std::uint32_t expert_ffn = 0;
  std::uint32_t num_experts = 0;
  std::uint32_t shared_experts = 0;
  std::uint32_t shared_ffn = 0;  ///< inner width of the fused shared expert
  std::uint32_t layers = 0;
  std::uint32_t mtp_layers = 0;   ///< numbered after the others
  std::uint32_t dense_first = 0;  ///< leading layers without experts
  std::uint32_t hash_layers = 0;  ///< leading layers that look experts up by token
  std::set<LayerIndex> dense_layers;
  wire::RouterSpec router;
  compute::FfnSpec ffn;
  bool is_gguf = false;

  /// Routed experts, then the fused shared one, if any.
  [[nodiscard]] std::uint32_t expert_ids() const {
    return num_experts + (shared_experts > 0 ? 1 : 0);
  }

  [[nodiscard]] bool is_latent() const { return expert_width != hidden; }

  [[nodiscard]] bool has_gate_projection() const {
    return ffn.activation != compute::Activation::relu2;
  }

  [[nodiscard]] bool is_hash_routed(LayerIndex layer) const {
    return layer < layers && layer < hash_layers;
  }

  /// invalid_params where the layer has no experts.
  [[nodiscard]] Status check_layer(LayerIndex layer) const;
  [[nodiscard]] catalog::ObservedShape observed() const;
};

inline constexpr std::uint64_t kConfigBytesMax = 4ULL << 20U;

/// Error: runtime, naming the key of config.json at fault.
[[nodiscard]] Result<Checkpoint> parse_checkpoint_config(std::string_view text);

/// The same from a GGUF file's metadata. Error: runtime, naming the key.
[[nodiscard]] Result<Checkpoint> read_gguf_checkpoint(
    const std::map<std::string, tensor::GgufValue, std::less<>>& metadata);

}  // namespace tenzro::prepare
