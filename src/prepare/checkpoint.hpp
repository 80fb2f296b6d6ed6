#pragma once
/// \file
/// What config.json says of a checkpoint's MoE layers, and how its family names their tensors.
///
/// Families whose experts are stored one tensor a projection, in F32, F16 or BF16: `qwen3_moe`, and
/// `deepseek_v3` with its relatives `kimi_k2` and `glm_moe_dsa`. Others are refused by the name of
/// their model_type.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/catalog/model.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::prepare {

enum class Projection : std::uint8_t { gate, up, down };

struct Checkpoint {
  std::string model_type;
  std::uint32_t hidden = 0;
  std::uint32_t expert_ffn = 0;
  std::uint32_t num_experts = 0;
  std::uint32_t shared_experts = 0;
  std::uint32_t layers = 0;
  std::uint32_t mtp_layers = 0;   ///< numbered after the others
  std::uint32_t dense_first = 0;  ///< leading layers without experts
  std::set<LayerIndex> dense_layers;
  bool has_selection_bias = false;
  wire::RouterSpec router;
  compute::FfnSpec ffn;

  /// Routed experts, then the fused shared one, if any.
  [[nodiscard]] std::uint32_t expert_ids() const {
    return num_experts + (shared_experts > 0 ? 1 : 0);
  }

  [[nodiscard]] std::uint32_t ffn_width(ExpertIndex expert) const {
    return expert < num_experts ? expert_ffn : expert_ffn * shared_experts;
  }

  /// Start of every tensor name of the layer's MoE block, final dot included.
  [[nodiscard]] std::string layer_prefix(LayerIndex layer) const;
  [[nodiscard]] std::string router_name(LayerIndex layer) const;
  [[nodiscard]] std::string bias_name(LayerIndex layer) const;
  [[nodiscard]] std::string expert_name(LayerIndex layer, ExpertIndex expert,
                                        Projection projection) const;
  /// invalid_params where the layer has no experts.
  [[nodiscard]] Status check_layer(LayerIndex layer) const;
  [[nodiscard]] catalog::ObservedShape observed() const;
};

inline constexpr std::uint64_t kConfigBytesMax = 4ULL << 20U;

/// Error: runtime, naming the key of config.json at fault.
[[nodiscard]] Result<Checkpoint> parse_checkpoint_config(std::string_view json);

}  // namespace tenzro::prepare
