#pragma once
/// \file
/// Model: what the catalog knows of one model: where its checkpoint is, how that is laid out, and
/// the numbers of its MoE layers.
///
/// A value; it never changes after the catalog was parsed. Layers are numbered as in the
/// checkpoint; multi-token-prediction layers come after them (`layers` + i).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::catalog {

/// How a checkpoint names and stores the MoE tensors of layer L (E = expert). What decides is the
/// naming; the number format of a tensor (BF16, FP8 with block scales, ...) is read from the file,
/// except where a layout is packed in a way of its own.
enum class Layout : std::uint8_t {
  dense,        ///< no experts
  qwen3_moe,    ///< model.layers.L.mlp.{gate, experts.E.{gate,up,down}_proj}
  qwen3_next,   ///< as qwen3_moe, plus shared_expert.* and shared_expert_gate
  qwen3_5_moe,  ///< model.language_model.layers.L.mlp.*, experts as 3D slabs (or by expert); mtp.*
  gemma4,       ///< model.language_model.layers.L.{router.*, experts.*}, 3D slabs
  diffusion_gemma,  ///< as gemma4 under model.decoder.layers.L
  deepseek_v3,      ///< model.layers.L.mlp.{gate, experts.E.*, shared_experts.*}
  kimi_k25,         ///< as deepseek_v3 under language_model., experts int4 in groups of 32
  kimi_k3,          ///< language_model.model.layers.L.block_sparse_moe.*, latent, experts MXFP4
  deepseek_v4,      ///< layers.L.ffn.*, w1 w2 w3, experts FP4; tid2eid in hash layers
  minimax_m1,       ///< model.layers.L.block_sparse_moe.{gate, experts.E.w1 w2 w3}
  minimax_m3,       ///< language_model.model.layers.L.block_sparse_moe.*
  nemotron_h,       ///< backbone.layers.L.mixer.*, two projections
  gpt_oss,          ///< model.layers.L.mlp.{router, experts}, MXFP4 blocks, gate and up interleaved
};

[[nodiscard]] std::string_view name_of(Layout layout);

struct MoeShape {
  std::uint32_t num_experts = 0;
  std::uint32_t experts_per_token = 0;
  std::uint32_t shared_experts = 0;
  /// Parameters of one routed expert over all MoE layers, in tenths of a billion, rounded; absent
  /// where that is 0.
  std::optional<std::uint32_t> params_per_expert_x10;
  friend bool operator==(const MoeShape&, const MoeShape&) = default;
};

struct Model {
  ModelId id;
  std::string architecture;
  /// Source repository on the model hub, "owner/name".
  std::string repo;
  Layout layout = Layout::dense;
  /// Absent for a dense model; then the numbers below may be 0 (not stated).
  std::optional<MoeShape> moe;
  std::uint32_t layers = 0;
  std::uint32_t dense_first = 0;
  std::uint32_t hash_layers = 0;
  std::uint32_t mtp_layers = 0;
  /// One character a layer, 'E' = MoE; empty where MoE layers are all from dense_first on.
  std::string pattern;
  std::uint32_t hidden = 0;
  /// Width of a routed expert's input and output; differs from `hidden` where experts are latent.
  std::uint32_t expert_width = 0;
  std::uint32_t expert_ffn = 0;
  /// Inner width of the fused shared expert; 0 where there is none.
  std::uint32_t shared_ffn = 0;
  /// Complete: top_k and shared_count are filled in from `moe`.
  wire::RouterSpec router;
  compute::FfnSpec ffn;

  [[nodiscard]] bool is_moe() const { return moe.has_value(); }

  [[nodiscard]] bool has_latent() const { return expert_width != hidden; }

  /// Whether `layer` holds experts. Multi-token-prediction layers do.
  [[nodiscard]] bool has_experts(LayerIndex layer) const;

  [[nodiscard]] bool is_hash_routed(LayerIndex layer) const {
    return has_experts(layer) && layer < hash_layers;
  }

  /// Decoder layers with experts, multi-token-prediction layers not counted.
  [[nodiscard]] std::uint32_t moe_layers() const;
};

/// What a checkpoint says of itself (config.json, tensor shapes). Absent = not looked at.
struct ObservedShape {
  std::optional<std::uint32_t> num_experts;
  std::optional<std::uint32_t> experts_per_token;
  std::optional<std::uint32_t> shared_experts;
  std::optional<std::uint32_t> hidden;
  std::optional<std::uint32_t> expert_width;
  std::optional<std::uint32_t> expert_ffn;
  std::optional<std::uint32_t> layers;
};

/// Refuses a checkpoint that is not the model the catalog means. Code: runtime; the message names
/// the model, the quantity and both values.
[[nodiscard]] Status check(const Model& model, const ObservedShape& observed);

/// The model as a JSON object, for clients that ask for its metadata. Keys of CatalogShape first.
[[nodiscard]] std::string to_json(const Model& model);

}  // namespace tenzro::catalog
