#pragma once
/// \file
/// Families as data: how each publishes its MoE layers, one row a family.
///
/// A row says which config.json it is, under which names its tensors stand, how experts are stored,
/// which keys give the numbers, and what its router and FFN do that no key says. The number format
/// of a tensor is read from the file, not from here: any row may come in any format. Reading and
/// slicing know no family: they follow the row.
///
/// Patterns: {L} is the layer, {M} the layer counted from the first multi-token-prediction one, {E}
/// the expert; "a|b" are alternatives, the first one there counts. Empty = the family has none.
#include <cstdint>
#include <span>
#include <string_view>

#include "tenzro/compute/weights.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::prepare {

/// Tensors of the gate, after the layer's prefix.
struct GateNames {
  std::string_view router = "gate.weight";
  std::string_view bias = {};
  std::string_view per_expert_scale = {};
  std::string_view input_scale = {};
  std::string_view table = {};
  std::string_view shared_gate = {};
  std::string_view latent_down = {};
  std::string_view latent_norm = {};
  std::string_view latent_up = {};
};

enum class Storage : std::uint8_t {
  each,         ///< a matrix an expert and projection
  slabs,        ///< [experts, rows, cols] a projection
  fused_slabs,  ///< gate and up in one slab of 2 x ffn rows, `up` is its name
};

/// Stems of an expert's matrices, without ".weight".
struct ExpertNames {
  Storage storage = Storage::each;
  std::string_view gate = {};  ///< empty for two-matrix experts
  std::string_view up = {};
  std::string_view down = {};
  /// Fused: rows gate, up, gate, up, ...; otherwise all gate rows first.
  bool alternates = false;
  /// Plain (not packed) slabs lie transposed, [experts, in, out].
  bool plain_is_transposed = false;
  /// Every projection has a bias. (Elsewhere one is taken where it is there.)
  bool has_biases = false;
};

/// Keys of config.json.
struct ConfigKeys {
  std::string_view experts = "num_experts";
  std::string_view top_k = "num_experts_per_tok";
  std::string_view ffn = "moe_intermediate_size";
  std::string_view shared_count = {};
  std::string_view shared_ffn = {};  ///< absent: shared count x ffn
  std::string_view latent = {};      ///< width that routed experts see
  std::string_view dense_first = {};
  std::string_view hash_layers = {};
  std::string_view mtp_layers = {};
  std::string_view scale = {};
  std::string_view normalize = {};
  std::string_view groups = {};
  std::string_view groups_used = {};
  std::string_view scoring = {};
  std::string_view activation = "hidden_act";
  std::string_view limit = {};
  std::string_view alpha = {};
  std::string_view beta = {};
  std::string_view linear_beta = {};
  std::string_view pattern = {};  ///< one character a layer, E = experts
};

struct Family {
  std::string_view model_types;
  std::string_view prefixes;
  std::string_view mtp_prefix = {};  ///< empty: as the other layers
  GateNames gate = {};
  std::span<const ExpertNames> experts;
  std::span<const ExpertNames> shared = {};
  ConfigKeys keys = {};
  /// What hidden_act and scoring_func may say.
  std::string_view activations = "silu";
  std::string_view scorings = {};
  /// What holds where no key says otherwise.
  std::uint32_t shared_count = 0;
  std::uint32_t mtp_count = 0;  ///< multi-token-prediction layers
  wire::RouterSpec router = {};
  compute::FfnSpec ffn = {};
  /// The input scale is divided by the square root of the width.
  bool divides_by_root_width = false;
};

/// Every family of safetensors checkpoints.
[[nodiscard]] std::span<const Family> families();
/// Null where no family has this model_type.
[[nodiscard]] const Family* find_family(std::string_view model_type);
/// Names of GGUF files, the same for every architecture but for those below.
[[nodiscard]] const Family& gguf_names();
[[nodiscard]] const Family& gguf_gemma_names();
[[nodiscard]] const Family& gguf_deepseek4_names();
[[nodiscard]] const Family& gguf_kimi_k3_names();

}  // namespace tenzro::prepare
