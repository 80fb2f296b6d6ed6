#include <limits>

#include "tenzro/base/bytes.hpp"

#include "checkpoint.hpp"
#include "config_reader.hpp"
#include "pattern.hpp"

namespace tenzro::prepare {
namespace {

using nlohmann::json;

constexpr std::uint32_t kFp8Block = 128;

void check_word(ConfigReader& reader, std::string_view key, std::string_view allowed) {
  if (key.empty() || allowed.empty()) return;
  const auto known = alternatives(allowed);
  const std::string word = reader.text(key, std::string(known.front()));
  if (!is_one_of(word, allowed)) {
    reader.refuse(
        key, "'" + echo(word) + "' is not known for this family: " + std::string(known.front()));
  }
}

void read_widths(ConfigReader& reader, const ConfigKeys& keys, Checkpoint& to) {
  to.hidden = reader.count("hidden_size", 1, kWidthMax);
  to.expert_width = to.hidden;
  if (!keys.latent.empty()) to.expert_width = reader.count(keys.latent, 1, kWidthMax);
  to.expert_ffn = reader.count(keys.ffn, 1, kWidthMax);
  to.num_experts = reader.count(keys.experts, 1, kExpertsMax);
  to.shared_experts = keys.shared_count.empty()
                          ? to.family->shared_count
                          : reader.optional_count(keys.shared_count, 0, kSharedMax)
                                .value_or(to.family->shared_count);
  const std::uint64_t fused = std::uint64_t{to.expert_ffn} * to.shared_experts;
  if (fused > kWidthMax) reader.refuse(keys.shared_count, "makes the shared expert too wide");
  to.shared_ffn = static_cast<std::uint32_t>(fused);
  if (to.shared_experts > 0 && !keys.shared_ffn.empty()) {
    to.shared_ffn = reader.optional_count(keys.shared_ffn, 1, kWidthMax).value_or(to.shared_ffn);
  }
}

void read_router(ConfigReader& reader, const ConfigKeys& keys, Checkpoint& to) {
  wire::RouterSpec& router = to.router;
  router.top_k = reader.count(keys.top_k, 1, to.num_experts);
  router.shared_count = to.shared_experts;
  if (to.shared_experts == 0) router.shared_gate = wire::SharedGate::none;
  if (!keys.normalize.empty()) {
    router.normalize = reader.boolean(keys.normalize, router.normalize);
  }
  if (!keys.scale.empty()) router.scale = reader.number(keys.scale, router.scale);
  if (!keys.groups.empty()) {
    router.n_group = reader.optional_count(keys.groups, 1, to.num_experts).value_or(1);
    router.topk_group =
        reader.optional_count(keys.groups_used, 1, router.n_group).value_or(router.n_group);
    if (to.num_experts % router.n_group != 0) {
      reader.refuse(keys.groups, "does not divide the number of experts");
    }
  }
  check_word(reader, keys.scoring, to.family->scorings);
  const double eps = reader.number("rms_norm_eps", 0);
  if (router.input_norm == wire::InputNorm::rms && eps > 0) router.input_norm_eps = eps;
  if (to.is_latent() && eps > 0) router.latent_norm_eps = eps;
  if (!reader.boolean("latent_moe_use_norm", true)) {
    reader.refuse("latent_moe_use_norm", "must be true");
  }
}

float real(ConfigReader& reader, std::string_view key, float absent) {
  return key.empty() ? absent : static_cast<float>(reader.number(key, double{absent}));
}

void read_ffn(ConfigReader& reader, const ConfigKeys& keys, Checkpoint& to) {
  check_word(reader, keys.activation, to.family->activations);
  to.ffn.limit = real(reader, keys.limit, to.ffn.limit);
  to.ffn.alpha = real(reader, keys.alpha, to.ffn.alpha);
  to.ffn.beta = real(reader, keys.beta, to.ffn.beta);
  to.ffn.linear_beta = real(reader, keys.linear_beta, to.ffn.linear_beta);
  if (to.ffn.activation == compute::Activation::silu_clamped && !(to.ffn.limit > 0)) {
    reader.refuse(keys.limit, "must be given and above 0");
  }
}

/// A list with one entry a layer; nothing where the key is absent.
const json* layer_list(ConfigReader& reader, std::string_view key, const Checkpoint& to) {
  const json* list = reader.find(key);
  if (list == nullptr || !list->is_array()) return nullptr;
  if (list->size() == to.layers) return list;
  reader.refuse(key, "must have one entry for each of the layers");
  return nullptr;
}

void read_layer_types(ConfigReader& reader, Checkpoint& to) {
  const json* types = layer_list(reader, "mlp_layer_types", to);
  for (LayerIndex layer = 0; types != nullptr && layer < to.layers; ++layer) {
    const json& type = (*types)[layer];
    if (!type.is_string()) return reader.refuse("mlp_layer_types", "must be a list of names");
    const std::string& name = type.get_ref<const std::string&>();
    if (name == "dense") to.dense_layers.insert(layer);
    if (name != "hash_moe") continue;
    if (to.hash_layers < layer) return reader.refuse("mlp_layer_types", "has a gap in hash layers");
    to.hash_layers = layer + 1;
  }
}

/// moe_layer_freq: 1, or a list of 0 and 1.
void read_frequency(ConfigReader& reader, Checkpoint& to) {
  const json* freq = reader.find("moe_layer_freq");
  if (freq == nullptr) return;
  if (!freq->is_array()) {
    if (reader.optional_count("moe_layer_freq", 1, kLayersMax).value_or(1) != 1) {
      reader.refuse("moe_layer_freq", "must be 1");
    }
    return;
  }
  const json* list = layer_list(reader, "moe_layer_freq", to);
  for (LayerIndex layer = 0; list != nullptr && layer < to.layers; ++layer) {
    const json& entry = (*list)[layer];
    if (!entry.is_number_unsigned()) {
      return reader.refuse("moe_layer_freq", "must be a list of 0 and 1");
    }
    if (entry.get<std::uint64_t>() == 0) to.dense_layers.insert(layer);
  }
}

void read_dense_list(ConfigReader& reader, Checkpoint& to) {
  const json* list = reader.find("mlp_only_layers");
  if (list == nullptr) return;
  const std::string why = "must be a list of layers";
  if (!list->is_array() || list->size() > kLayersMax) return reader.refuse("mlp_only_layers", why);
  for (const json& layer : *list) {
    if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() > kLayersMax) {
      return reader.refuse("mlp_only_layers", why);
    }
    to.dense_layers.insert(layer.get<LayerIndex>());
  }
}

void read_layers(ConfigReader& reader, const ConfigKeys& keys, Checkpoint& to) {
  to.layers = reader.count("num_hidden_layers", 1, kLayersMax);
  const auto optional = [&](std::string_view key) {
    return key.empty() ? 0 : reader.optional_count(key, 0, kLayersMax).value_or(0);
  };
  to.dense_first = optional(keys.dense_first);
  to.hash_layers = optional(keys.hash_layers);
  to.mtp_layers = to.family->mtp_count;
  if (!keys.mtp_layers.empty())
    to.mtp_layers = reader.optional_count(keys.mtp_layers, 0, kLayersMax).value_or(to.mtp_layers);
  read_dense_list(reader, to);
  const std::uint32_t step =
      reader.optional_count("decoder_sparse_step", 1, kLayersMax).value_or(1);
  for (LayerIndex layer = 0; layer < to.layers; ++layer) {
    if ((layer + 1) % step != 0) to.dense_layers.insert(layer);
  }
  read_layer_types(reader, to);
  read_frequency(reader, to);
  if (keys.pattern.empty()) return;
  const std::string pattern = reader.text(keys.pattern, "");
  if (pattern.size() != to.layers) {
    return reader.refuse(keys.pattern, "must have one character for each of the layers");
  }
  for (LayerIndex layer = 0; layer < to.layers; ++layer) {
    if (pattern[layer] != 'E') to.dense_layers.insert(layer);
  }
}

/// Blocks of another size would be read as what they are not.
void check_quantization(ConfigReader& reader) {
  const json* config = reader.find("quantization_config");
  if (config == nullptr) config = reader.find_outside("quantization_config");
  if (config == nullptr || !config->is_object()) return;
  const auto block = config->find("weight_block_size");
  if (block == config->end() || block->is_null()) return;
  if (*block != json::array({kFp8Block, kFp8Block})) {
    reader.refuse("quantization_config", "weight_block_size must be [128, 128]");
  }
}

const Family* family_of(const json& document, std::string& model_type) {
  for (const json* section :
       {&document, document.contains("text_config") ? &document.at("text_config") : nullptr}) {
    if (section == nullptr || !section->is_object()) continue;
    const auto type = section->find("model_type");
    if (type == section->end() || !type->is_string()) continue;
    if (model_type.empty()) model_type = type->get<std::string>();
    if (const Family* family = find_family(type->get_ref<const std::string&>())) return family;
  }
  return nullptr;
}

}  // namespace

Result<Checkpoint> parse_checkpoint_config(std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return fail(ErrorCode::runtime, "config.json", "is not a JSON object");
  Checkpoint checkpoint;
  checkpoint.family = family_of(document, checkpoint.model_type);
  if (checkpoint.family == nullptr) {
    return fail(
        ErrorCode::runtime, "",
        "no MoE tensor-naming scheme for architecture '" + echo(checkpoint.model_type) + "'");
  }
  checkpoint.router = checkpoint.family->router;
  checkpoint.ffn = checkpoint.family->ffn;
  ConfigReader reader(document);
  const ConfigKeys& keys = checkpoint.family->keys;
  read_widths(reader, keys, checkpoint);
  read_layers(reader, keys, checkpoint);
  read_router(reader, keys, checkpoint);
  read_ffn(reader, keys, checkpoint);
  check_quantization(reader);
  if (reader.error()) return fail(*reader.error());
  return checkpoint;
}

}  // namespace tenzro::prepare
