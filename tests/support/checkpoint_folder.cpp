#include "support/checkpoint_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::testing {
namespace {

CheckpointFolder::Tensor random_tensor(Prng& prng, std::vector<std::uint64_t> shape) {
  std::size_t count = 1;
  for (const std::uint64_t dimension : shape) count *= dimension;
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(prng.below(2001)) / 1000.0F - 1.0F;
  const auto bytes = std::as_bytes(std::span<const float>(values));
  return {tensor::DType::f32, std::move(shape), {bytes.begin(), bytes.end()}};
}

}  // namespace

CheckpointFolder::CheckpointFolder(const Shape& shape, const std::function<void(Tensors&)>& spoil) {
  std::string path = (std::filesystem::temp_directory_path() / "tenzro-checkpoint-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) std::abort();
  path_ = path;
  Prng prng(11);
  Tensors tensors;
  const std::string mlp = "model.layers.0.mlp.";
  tensors[mlp + "gate.weight"] = random_tensor(prng, {shape.experts, shape.hidden});
  for (std::uint32_t e = 0; e < shape.experts; ++e) {
    const std::string expert = mlp + "experts." + std::to_string(e) + ".";
    tensors[expert + "gate_proj.weight"] = random_tensor(prng, {shape.ffn, shape.hidden});
    tensors[expert + "up_proj.weight"] = random_tensor(prng, {shape.ffn, shape.hidden});
    tensors[expert + "down_proj.weight"] = random_tensor(prng, {shape.hidden, shape.ffn});
  }
  if (spoil) spoil(tensors);
  std::vector<tensor::TensorToWrite> list;
  for (const auto& [name, one] : tensors) list.push_back({name, one.dtype, one.shape, one.bytes});
  const std::vector<std::byte> file = tensor::write_safetensors(list, {});
  write("model.safetensors", std::string(reinterpret_cast<const char*>(file.data()), file.size()));
  config_ = {{"model_type", "\"qwen3_moe\""},
             {"hidden_size", std::to_string(shape.hidden)},
             {"moe_intermediate_size", std::to_string(shape.ffn)},
             {"num_experts", std::to_string(shape.experts)},
             {"num_experts_per_tok", "2"},
             {"num_hidden_layers", "2"},
             {"norm_topk_prob", "true"},
             {"mlp_only_layers", "[1]"}};
  set_config("hidden_act", "\"silu\"");
}

CheckpointFolder::~CheckpointFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void CheckpointFolder::write(const std::string& file, const std::string& text) const {
  std::ofstream(path_ + "/" + file, std::ios::binary) << text;
}

void CheckpointFolder::remove(const std::string& file) const {
  std::filesystem::remove(path_ + "/" + file);
}

void CheckpointFolder::set_config(const std::string& key, const std::string& json) {
  config_.erase(key);
  if (!json.empty()) config_.emplace(key, json);
  std::string text;
  for (const auto& [name, value] : config_) {
    text += (text.empty() ? "{\"" : ", \"") + name + "\": " + value;
  }
  write("config.json", text + "}");
}

}  // namespace tenzro::testing
