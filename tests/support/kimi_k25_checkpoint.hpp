#pragma once
/// \file
/// An int4 checkpoint under Kimi K2.5's names, and what the formulas of its router and FFN, written
/// out in double, make of some rows.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenzro/base/ids.hpp"

namespace tenzro::testing {

inline constexpr LayerIndex kKimiK25Layer = 1;
inline constexpr const char* kKimiK25Config =
    R"({"model_type":"kimi_k25","text_config":{"model_type":"kimi_k2","hidden_size":64,
        "moe_intermediate_size":32,"n_routed_experts":8,"num_experts_per_tok":3,"n_group":1,
        "topk_group":1,"routed_scaling_factor":2.827,"norm_topk_prob":true,
        "n_shared_experts":1,"num_hidden_layers":61,"first_k_dense_replace":1,
        "scoring_func":"sigmoid"}})";

struct KimiK25Checkpoint {
  std::vector<std::byte> file;  ///< model.safetensors
  std::uint32_t width = 0;
  std::vector<float> rows;
  std::vector<float> output;
};

[[nodiscard]] KimiK25Checkpoint make_kimi_k25_checkpoint();

}  // namespace tenzro::testing
