#include "support/family_checkpoint.hpp"

#include <cstring>

#include "tenzro/base/bytes.hpp"

namespace tenzro::testing {
namespace {

using tensor::TensorToWrite;

constexpr const char* kDeepseek =
    R"({"model_type":"deepseek_v3","hidden_size":32,"moe_intermediate_size":8,"n_routed_experts":256,
        "num_experts_per_tok":8,"n_group":8,"topk_group":4,"routed_scaling_factor":2.5,
        "norm_topk_prob":true,"n_shared_experts":1,"scoring_func":"sigmoid","num_hidden_layers":61,
        "first_k_dense_replace":3,"num_nextn_predict_layers":1,"moe_layer_freq":1,
        "quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})";
constexpr const char* kDeepseekWithoutNorm =
    R"({"model_type":"deepseek_v3","hidden_size":32,"moe_intermediate_size":8,"n_routed_experts":256,
        "num_experts_per_tok":8,"n_group":8,"topk_group":4,"routed_scaling_factor":2.5,
        "norm_topk_prob":false,"n_shared_experts":1,"num_hidden_layers":61,
        "first_k_dense_replace":3})";
constexpr const char* kDeepseekV4 =
    R"({"model_type":"deepseek_v4","hidden_size":32,"moe_intermediate_size":16,
        "n_routed_experts":32,"num_experts_per_tok":6,"n_shared_experts":1,
        "routed_scaling_factor":1.5,"swiglu_limit":1.0,"scoring_func":"sqrtsoftplus",
        "num_hash_layers":1,"num_hidden_layers":2})";

const FamilyCheckpoint kCheckpoints[] = {
    {"qwen3_moe_norm", "qwen3_moe",
     R"({"model_type":"qwen3_moe","hidden_size":32,"moe_intermediate_size":16,"num_experts":128,
         "num_experts_per_tok":8,"norm_topk_prob":true,"num_hidden_layers":48,
         "decoder_sparse_step":1,"mlp_only_layers":[]})",
     0},
    {"qwen3_moe_nonorm", "qwen3_moe",
     R"({"model_type":"qwen3_moe","hidden_size":32,"moe_intermediate_size":16,"num_experts":128,
         "num_experts_per_tok":8,"num_hidden_layers":48})",
     0},
    {"qwen3_5_moe", "qwen3_5_moe",
     R"({"model_type":"qwen3_5_moe","text_config":{"model_type":"qwen3_5_moe_text","hidden_size":32,
         "moe_intermediate_size":8,"shared_expert_intermediate_size":8,"num_experts":64,
         "num_experts_per_tok":8,"num_hidden_layers":40,"mtp_num_hidden_layers":1,
         "hidden_act":"silu"}})",
     0},
    {"deepseek_v3_main", "deepseek_v3", kDeepseek, 3},
    {"deepseek_v3_nonorm", "deepseek_v3", kDeepseekWithoutNorm, 3},
    {"deepseek_v3_negbias", "deepseek_v3", kDeepseek, 3, -2.0F},
    {"kimi_k2", "kimi_k2",
     R"({"model_type":"kimi_k2","hidden_size":32,"moe_intermediate_size":4,"n_routed_experts":384,
         "num_experts_per_tok":8,"n_group":1,"topk_group":1,"routed_scaling_factor":2.827,
         "norm_topk_prob":true,"n_shared_experts":1,"num_hidden_layers":61,
         "first_k_dense_replace":1})",
     3},
    {"glm5", "glm5",
     R"({"model_type":"glm_moe_dsa","hidden_size":32,"moe_intermediate_size":8,
         "n_routed_experts":64,"num_experts_per_tok":8,"n_group":1,"topk_group":1,
         "routed_scaling_factor":2.5,"norm_topk_prob":true,"n_shared_experts":1,
         "num_hidden_layers":78,"mlp_layer_types":null,"first_k_dense_replace":3})",
     3},
    {"deepseek_v4_hash", "deepseek_v4", kDeepseekV4, 0},
    {"deepseek_v4_topk", "deepseek_v4", kDeepseekV4, 1},
    {"gpt_oss", "gpt_oss",
     R"({"model_type":"gpt_oss","hidden_size":32,"intermediate_size":16,"num_local_experts":128,
         "num_experts_per_tok":4,"swiglu_limit":7.0,"num_hidden_layers":36,"hidden_act":"silu"})",
     0},
    {"gemma4", "gemma4",
     R"({"model_type":"gemma4","text_config":{"model_type":"gemma4_text","hidden_size":32,
         "moe_intermediate_size":8,"num_experts":128,"top_k_experts":8,"rms_norm_eps":1e-06,
         "hidden_activation":"gelu_pytorch_tanh","num_hidden_layers":30}})",
     0},
    {"minimax_m1", "minimax_m1",
     R"({"model_type":"minimax","hidden_size":32,"intermediate_size":16,"num_local_experts":32,
         "num_experts_per_tok":2,"num_hidden_layers":80})",
     0},
    {"minimax_m3", "minimax_m3",
     R"({"model_type":"minimax_m3_vl","text_config":{"hidden_size":32,"intermediate_size":8,
         "shared_intermediate_size":8,"num_local_experts":128,"num_experts_per_tok":4,
         "routed_scaling_factor":2.0,"swiglu_alpha":1.702,"swiglu_limit":7.0,
         "num_hidden_layers":4,"moe_layer_freq":[0,0,0,1]}})",
     3},
    {"nemotron_h", "nemotron_h",
     R"({"model_type":"nemotron_h","hidden_size":32,"moe_intermediate_size":16,
         "moe_shared_expert_intermediate_size":32,"n_routed_experts":64,"num_experts_per_tok":6,
         "routed_scaling_factor":2.5,"n_group":1,"topk_group":1,"n_shared_experts":1,
         "norm_topk_prob":true,"mlp_hidden_act":"relu2","num_hidden_layers":4,
         "hybrid_override_pattern":"ME*E"})",
     1},
    {"kimi_k3", "kimi_k3_port",
     R"({"model_type":"kimi_k3","text_config":{"hidden_size":64,"routed_expert_hidden_size":32,
         "moe_intermediate_size":16,"num_experts":48,"num_experts_per_token":16,
         "num_shared_experts":2,"routed_scaling_factor":1.0,"activation_situ_beta":4.0,
         "activation_situ_linear_beta":25.0,"rms_norm_eps":1e-05,"latent_moe_use_norm":true,
         "moe_renormalize":true,"moe_router_activation_func":"sigmoid","num_hidden_layers":93,
         "first_k_dense_replace":1}})",
     1},
};

/// `by` to each element of an F32 tensor of the file.
void add_to(std::vector<std::byte>& file, const std::string& tensor, float by) {
  const std::uint64_t length = load_u64_le(file.data());
  const auto header = tensor::parse_safetensors_header(
      std::span<const std::byte>(file).subspan(8, length), file.size());
  if (!header) stop(header.error().message());
  const tensor::TensorInfo& info = header->tensors.at(tensor);
  for (std::uint64_t at = info.begin; at < info.end; at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, file.data() + at, sizeof value);
    value += by;
    std::memcpy(file.data() + at, &value, sizeof value);
  }
}

TensorToWrite copy_of(const TensorTable& from, const std::string& name, std::string to) {
  return {std::move(to), from.info(name).dtype, from.info(name).shape, from.bytes(name)};
}

TensorToWrite rows_of(const compute::MatrixView& matrix, std::string to) {
  if (matrix.type != tensor::WeightType::f32) stop(to + " is not F32");
  return {std::move(to), tensor::DType::f32, {matrix.rows, matrix.cols}, matrix.bytes};
}

/// Qwen3.5's layer as Qwen3 Next lays it out: a matrix an expert and projection.
std::vector<std::byte> as_qwen3_next(const FamilyCase& golden, const std::string& to) {
  const std::string from = "model.language_model.layers.0.mlp.";
  const TensorTable& table = *golden.layer.tensors;
  std::vector<TensorToWrite> tensors;
  for (const std::string& name : table.names(from)) {
    const std::string tail = name.substr(from.size());
    if (!tail.starts_with("experts.")) tensors.push_back(copy_of(table, name, to + tail));
  }
  for (std::uint32_t e = 0; e < golden.layer.gate.num_experts; ++e) {
    const std::string expert = to + "experts." + std::to_string(e) + ".";
    const compute::ExpertView& view = golden.layer.experts[e];
    tensors.push_back(rows_of(*view.gate, expert + "gate_proj.weight"));
    tensors.push_back(rows_of(view.up, expert + "up_proj.weight"));
    tensors.push_back(rows_of(view.down, expert + "down_proj.weight"));
  }
  return tensor::write_safetensors(tensors, {});
}

std::vector<std::byte> as_diffusion_gemma(const FamilyCase& golden) {
  const std::string from = "model.language_model.layers.0.";
  const TensorTable& table = *golden.layer.tensors;
  std::vector<TensorToWrite> tensors;
  for (const std::string& name : table.names(from))
    tensors.push_back(copy_of(table, name, "model.decoder.layers.0." + name.substr(from.size())));
  return tensor::write_safetensors(tensors, {});
}

constexpr const char* kQwen3Next =
    R"({"model_type":"qwen3_next","hidden_size":32,"moe_intermediate_size":8,"num_experts":64,
        "shared_expert_intermediate_size":8,"num_experts_per_tok":8,"norm_topk_prob":true,
        "num_hidden_layers":48,"hidden_act":"silu","decoder_sparse_step":1,
        "mlp_only_layers":[]})";

const RelatedCheckpoint kRelated[] = {
    {"qwen3_next", "qwen3_5_moe", kQwen3Next, 47,
     [](const FamilyCase& golden) { return as_qwen3_next(golden, "model.layers.47.mlp."); }},
    {"qwen3_next_mtp", "qwen3_5_moe", kQwen3Next, 48,
     [](const FamilyCase& golden) { return as_qwen3_next(golden, "mtp.layers.0.mlp."); }},
    {"diffusion_gemma", "gemma4",
     R"({"model_type":"diffusion_gemma","text_config":{"model_type":"diffusion_gemma_text",
         "hidden_size":32,"moe_intermediate_size":8,"num_experts":128,"top_k_experts":8,
         "rms_norm_eps":1e-06,"hidden_activation":"gelu_pytorch_tanh","num_hidden_layers":30}})",
     0, as_diffusion_gemma},
};

}  // namespace

std::span<const FamilyCheckpoint> family_checkpoints() {
  return kCheckpoints;
}

std::vector<std::byte> file_of(const FamilyCheckpoint& checkpoint, const std::string& folder) {
  std::vector<std::byte> file = read_file(folder + "/" + checkpoint.file + ".safetensors");
  if (checkpoint.bias_shift != 0) {
    add_to(file, "model.layers.3.mlp.gate.e_score_correction_bias", checkpoint.bias_shift);
  }
  return file;
}

std::span<const RelatedCheckpoint> related_checkpoints() {
  return kRelated;
}

}  // namespace tenzro::testing
