// Families as GGUF files name their tensors.
#include "family.hpp"

namespace tenzro::prepare {
namespace {

constexpr ExpertNames kGgufExperts[]{
    {.storage = Storage::slabs,
     .gate = "ffn_gate_exps",
     .up = "ffn_up_exps",
     .down = "ffn_down_exps"},
    {.storage = Storage::fused_slabs, .up = "ffn_gate_up_exps", .down = "ffn_down_exps"}};
constexpr ExpertNames kGgufShared[]{
    {.gate = "ffn_gate_shexp", .up = "ffn_up_shexp", .down = "ffn_down_shexp"}};

constexpr GateNames kGgufGate{.router = "ffn_gate_inp.weight",
                              .bias = "exp_probs_b.bias|exp_probs_b|ffn_gate_inp.bias",
                              .shared_gate = "ffn_gate_inp_shexp.weight"};

constexpr Family kGguf{.model_types = {},
                       .prefixes = "blk.{L}.",
                       .gate = kGgufGate,
                       .experts = kGgufExperts,
                       .shared = kGgufShared};

constexpr Family with_gate(GateNames gate) {
  Family family = kGguf;
  family.gate = gate;
  return family;
}

/// The scale of `down` is the expert's own; the norm's scale is divided as in safetensors.
constexpr Family gemma() {
  Family family = with_gate({.router = "ffn_gate_inp.weight",
                             .per_expert_scale = "ffn_down_exps.scale",
                             .input_scale = "ffn_gate_inp.scale"});
  family.divides_by_root_width = true;
  return family;
}

constexpr Family kGemma = gemma();
constexpr Family kDeepseek4 = with_gate({.router = "ffn_gate_inp.weight",
                                         .bias = "exp_probs_b.bias|exp_probs_b",
                                         .table = "ffn_gate_tid2eid.weight|ffn_gate_tid2eid"});
constexpr Family kKimiK3 = with_gate({.router = "ffn_gate_inp.weight",
                                      .bias = "exp_probs_b.bias|exp_probs_b",
                                      .latent_down = "ffn_routed_down.weight",
                                      .latent_norm = "ffn_routed_norm.weight",
                                      .latent_up = "ffn_routed_up.weight"});

}  // namespace

const Family& gguf_names() {
  return kGguf;
}

const Family& gguf_gemma_names() {
  return kGemma;
}

const Family& gguf_deepseek4_names() {
  return kDeepseek4;
}

const Family& gguf_kimi_k3_names() {
  return kKimiK3;
}

}  // namespace tenzro::prepare
