#pragma once
/// \file
/// FamilyLayer: one MoE layer read from checkpoint tensors, as the gate and expert blobs of that
/// layer would hold it, for every model family.
///
/// `prefix` is everything before the layer's own names, with the last dot: "model.layers.3.mlp.".
/// Matrices are views into the tensors; where a checkpoint stores them transposed or interleaved
/// (gpt-oss) they are views into `copies`.
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tenzro/compute/weights.hpp"
#include "tenzro/wire/gate_blob.hpp"

#include "support/tensor_table.hpp"

namespace tenzro::testing {

using Tensors = std::shared_ptr<const TensorTable>;

struct FamilyLayer {
  Tensors tensors;
  std::shared_ptr<std::deque<std::vector<float>>> copies;
  wire::GateBlob gate;
  /// Routed experts by index, then the fused shared one where there is one.
  std::vector<compute::ExpertView> experts;
};

/// DeepSeek V3's router, and what its relatives change in it.
struct DeepseekSpec {
  std::uint32_t n_group = 1;
  std::uint32_t topk_group = 1;
  std::uint32_t top_k = 8;
  double scale = 1.0;
  bool normalize = true;
  /// Added to every selection bias.
  float bias_shift = 0;
};

[[nodiscard]] FamilyLayer qwen3_layer(const Tensors& tensors, const std::string& prefix,
                                      std::uint32_t top_k, bool normalize);
[[nodiscard]] FamilyLayer qwen3_5_layer(const Tensors& tensors, const std::string& prefix,
                                        std::uint32_t top_k);
/// DeepSeek V3, Kimi K2, GLM 5.
[[nodiscard]] FamilyLayer deepseek_v3_layer(const Tensors& tensors, const std::string& prefix,
                                            const DeepseekSpec& spec);
/// Hash-routed where the checkpoint has a table.
[[nodiscard]] FamilyLayer deepseek_v4_layer(const Tensors& tensors, const std::string& prefix,
                                            std::uint32_t top_k, double scale, float limit);
[[nodiscard]] FamilyLayer gpt_oss_layer(const Tensors& tensors, const std::string& prefix,
                                        std::uint32_t top_k);
[[nodiscard]] FamilyLayer gemma4_layer(const Tensors& tensors, const std::string& prefix,
                                       std::uint32_t top_k);
[[nodiscard]] FamilyLayer minimax_m1_layer(const Tensors& tensors, const std::string& prefix,
                                           std::uint32_t top_k);
[[nodiscard]] FamilyLayer minimax_m3_layer(const Tensors& tensors, const std::string& prefix,
                                           std::uint32_t top_k, double scale);
[[nodiscard]] FamilyLayer nemotron_layer(const Tensors& tensors, const std::string& prefix,
                                         std::uint32_t top_k, double scale);
[[nodiscard]] FamilyLayer kimi_k3_layer(const Tensors& tensors, const std::string& prefix,
                                        std::uint32_t top_k);

}  // namespace tenzro::testing
