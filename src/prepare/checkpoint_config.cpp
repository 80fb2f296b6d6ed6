#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"

#include "checkpoint.hpp"

namespace tenzro::prepare {
namespace {

using nlohmann::json;

/// No model is near these; they keep products of counts within 64 bits and loops short.
constexpr std::uint32_t kWidthMax = 1U << 20U;
constexpr std::uint32_t kExpertsMax = 1U << 16U;
constexpr std::uint32_t kLayersMax = 1U << 12U;

/// Reads keys of config.json, keeping the first error.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {}

  std::uint32_t count(const char* key, std::uint32_t min, std::uint32_t max) {
    const auto value = optional_count(key, min, max);
    if (!value) refuse(key, "is missing");
    return value.value_or(min);
  }

  std::optional<std::uint32_t> optional_count(const char* key, std::uint32_t min,
                                              std::uint32_t max) {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return std::nullopt;
    if (!it->is_number_unsigned() || it->get<std::uint64_t>() < min ||
        it->get<std::uint64_t>() > max) {
      refuse(key, "must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
      return min;
    }
    return static_cast<std::uint32_t>(it->get<std::uint64_t>());
  }

  double number(const char* key, double absent) {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return absent;
    if (!it->is_number()) {
      refuse(key, "must be a number");
      return absent;
    }
    return it->get<double>();
  }

  bool boolean(const char* key, bool absent) {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return absent;
    if (!it->is_boolean()) {
      refuse(key, "must be true or false");
      return absent;
    }
    return it->get<bool>();
  }

  std::string text(const char* key, std::string absent) {
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return absent;
    if (!it->is_string()) {
      refuse(key, "must be a string");
      return absent;
    }
    return it->get<std::string>();
  }

  std::set<LayerIndex> layers(const char* key) {
    std::set<LayerIndex> found;
    const auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return found;
    if (!it->is_array() || it->size() > kLayersMax) {
      refuse(key, "must be a list of layers");
      return found;
    }
    for (const json& layer : *it) {
      if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() > kLayersMax) {
        refuse(key, "must be a list of layers");
        return found;
      }
      found.insert(layer.get<LayerIndex>());
    }
    return found;
  }

  void refuse(const char* key, const std::string& why) {
    if (!error_) error_ = Error{ErrorCode::runtime, "config.json", std::string(key) + " " + why};
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const json& object_;
  std::optional<Error> error_;
};

void read_common(Reader& reader, Checkpoint& checkpoint) {
  checkpoint.hidden = reader.count("hidden_size", 1, kWidthMax);
  checkpoint.expert_ffn = reader.count("moe_intermediate_size", 1, kWidthMax);
  checkpoint.layers = reader.count("num_hidden_layers", 1, kLayersMax);
  checkpoint.router.declared = true;
  const std::string activation = reader.text("hidden_act", "silu");
  if (activation != "silu")
    reader.refuse("hidden_act", "'" + echo(activation) + "' is not known for this family: silu");
}

void read_qwen3(Reader& reader, Checkpoint& checkpoint) {
  read_common(reader, checkpoint);
  checkpoint.num_experts = reader.count("num_experts", 1, kExpertsMax);
  checkpoint.router.top_k = reader.count("num_experts_per_tok", 1, checkpoint.num_experts);
  checkpoint.router.normalize = reader.boolean("norm_topk_prob", false);
  checkpoint.dense_layers = reader.layers("mlp_only_layers");
  const std::uint32_t step =
      reader.optional_count("decoder_sparse_step", 1, kLayersMax).value_or(1);
  for (LayerIndex layer = 0; layer < checkpoint.layers; ++layer) {
    if ((layer + 1) % step != 0) checkpoint.dense_layers.insert(layer);
  }
}

void read_deepseek_v3(Reader& reader, Checkpoint& checkpoint) {
  read_common(reader, checkpoint);
  checkpoint.num_experts = reader.count("n_routed_experts", 1, kExpertsMax);
  checkpoint.shared_experts = reader.optional_count("n_shared_experts", 0, 1024).value_or(0);
  checkpoint.dense_first =
      reader.optional_count("first_k_dense_replace", 0, kLayersMax).value_or(0);
  checkpoint.mtp_layers =
      reader.optional_count("num_nextn_predict_layers", 0, kLayersMax).value_or(0);
  checkpoint.has_selection_bias = true;
  wire::RouterSpec& router = checkpoint.router;
  router.scoring = wire::Scoring::sigmoid;
  router.epsilon = 1e-20;
  router.top_k = reader.count("num_experts_per_tok", 1, checkpoint.num_experts);
  router.normalize = reader.boolean("norm_topk_prob", true);
  router.scale = reader.number("routed_scaling_factor", 1.0);
  router.n_group = reader.optional_count("n_group", 1, checkpoint.num_experts).value_or(1);
  router.topk_group =
      reader.optional_count("topk_group", 1, router.n_group).value_or(router.n_group);
  router.shared_count = checkpoint.shared_experts;
  if (checkpoint.num_experts % router.n_group != 0)
    reader.refuse("n_group", "does not divide n_routed_experts");
  const std::string scoring = reader.text("scoring_func", "sigmoid");
  if (scoring != "sigmoid")
    reader.refuse("scoring_func", "'" + echo(scoring) + "' is not known: sigmoid");
  const std::uint32_t every = reader.optional_count("moe_layer_freq", 1, kLayersMax).value_or(1);
  if (every != 1) reader.refuse("moe_layer_freq", "must be 1");
  if (std::uint64_t{checkpoint.expert_ffn} * checkpoint.shared_experts > kWidthMax) {
    reader.refuse("n_shared_experts", "makes the shared expert too wide");
  }
}

}  // namespace

Result<Checkpoint> parse_checkpoint_config(std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return fail(ErrorCode::runtime, "config.json", "is not a JSON object");
  Reader reader(document);
  Checkpoint checkpoint;
  checkpoint.model_type = reader.text("model_type", "");
  if (checkpoint.model_type == "qwen3_moe") {
    read_qwen3(reader, checkpoint);
  } else if (checkpoint.model_type == "deepseek_v3" || checkpoint.model_type == "kimi_k2" ||
             checkpoint.model_type == "glm_moe_dsa") {
    read_deepseek_v3(reader, checkpoint);
  } else {
    return fail(
        ErrorCode::runtime, "",
        "no MoE tensor-naming scheme for architecture '" + echo(checkpoint.model_type) + "'");
  }
  if (reader.error()) return fail(*reader.error());
  return checkpoint;
}

}  // namespace tenzro::prepare
