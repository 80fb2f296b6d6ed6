#include <algorithm>
#include <array>
#include <string>

#include "tenzro/base/bytes.hpp"

#include "method.hpp"
#include "param_reader.hpp"

namespace tenzro::rpc {
namespace {

/// `quant` is kept to be echoed, so its text is bounded.
constexpr std::size_t kQuantBytesMax = 1024;
constexpr std::size_t kSourceBytesMax = 4096;
constexpr std::size_t kLayersMax = 4096;
constexpr std::size_t kFileNameBytesMax = 255;

using tensor::WeightType;

// ---- parameters

constexpr Param kJobIdParam{"job_id", types::kText, Need::required,
                            "The id that tenzro_moePrepareExperts gave."};
constexpr Param kJobParams[] = {kJobIdParam};
constexpr Param kStatusParams[] = {
    kJobIdParam,
    {"summary", types::kFlag, Need::optional,
     "Leave the blobs out: `experts` and `gates` are empty, `gate` is null, and "
     "`completed_experts` says how many there are. Default false."}};
constexpr Param kPrepareParams[] = {
    kModelIdParam,
    {"layer",
     {"u32, u32[] or \"all\"",
      R"({"oneOf":[{"type":"integer","minimum":0,"maximum":4294967295},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0,"maximum":4294967295}},{"type":"string","enum":["all"]}]})"},
     Need::required,
     "Index of the layer in its model, a list of them, or `all`: every layer that has experts, "
     "multi-token-prediction layers aside."},
    {"experts", types::kU32List, Need::optional,
     "Which experts; the fused shared expert is the one after the last routed one. Default: all."},
    {"include_gate", types::kFlag, Need::optional, "Also prepare the layer's gate. Default true."},
    {"quant",
     {"string or object",
      R"({"oneOf":[{"type":"string","enum":["q4_k_m","q8_0","q4_k","q6_k"]},{"type":"object","properties":{"gate":{"type":"string","enum":["q8_0","q4_k","q6_k"]},"up":{"type":"string","enum":["q8_0","q4_k","q6_k"]},"down":{"type":"string","enum":["q8_0","q4_k","q6_k"]}},"additionalProperties":false}]})"},
     Need::optional,
     "A preset (`q4_k_m`: gate and up Q4_K, down Q6_K; or one type for all), or a type a "
     "projection; "
     "a projection left out stays dense. Default: all dense."},
    {"strict", types::kFlag, Need::optional,
     "Refuse where a projection's width does not suit its type, instead of taking Q8_0. Default "
     "false."},
    {"dense",
     {"string", R"({"type":"string","enum":["f32"]})"},
     Need::optional,
     "What packed sources (FP8, FP4, int4, and GGUF blocks other than Q8_0, Q4_K and Q6_K) become "
     "where they stay dense: F32 instead of BF16."},
    {"imatrix", types::kText, Need::optional,
     "Name of a GGUF imatrix file in the source's folder: Q4_K and Q6_K then weigh columns by it. "
     "Default: all columns count alike."},
    {"source", types::kText, Need::optional,
     "Where the checkpoint is: a directory, a `.safetensors` or a `.gguf` file of the node's "
     "machine, `file://` of these, or the `https://` base of its files, at whose end such a file "
     "may stand. Default: the model's repository on the hub of `[prepare] hub_url`."},
    {"load", types::kFlag, Need::optional,
     "Also load what is published, so that this node serves it. Default false."}};

// ---- readers

struct NamedType {
  std::string_view name;
  WeightType type;
};

constexpr std::array<NamedType, 3> kKinds{
    {{"q8_0", WeightType::q8_0}, {"q4_k", WeightType::q4_k}, {"q6_k", WeightType::q6_k}}};

std::optional<WeightType> read_kind(ParamReader& params, std::string_view name) {
  const auto* const kind = std::find_if(kKinds.begin(), kKinds.end(),
                                        [&](const NamedType& each) { return each.name == name; });
  if (kind != kKinds.end()) return kind->type;
  params.refuse("", "unknown quant kind '" + echo(name) + "': expected q8_0, q4_k, or q6_k");
  return std::nullopt;
}

QuantPlan preset(ParamReader& params, std::string_view name) {
  QuantPlan plan;
  if (name == "q4_k_m") {
    plan.gate = plan.up = WeightType::q4_k;
    plan.down = WeightType::q6_k;
  } else {
    plan.gate = plan.up = plan.down = read_kind(params, name);
  }
  return plan;
}

std::optional<WeightType> read_projection(ParamReader& params, const JsonNode& object,
                                          std::string_view projection) {
  const JsonNode* node = find_member(object, projection);
  if (node == nullptr || node->kind == JsonKind::null) return std::nullopt;
  if (node->kind == JsonKind::string) return read_kind(params, node->text);
  params.refuse("quant." + std::string(projection), "must be a string");
  return std::nullopt;
}

std::optional<QuantPlan> read_quant(ParamReader& params) {
  const JsonNode* node = params.find("quant");
  if (node == nullptr) return std::nullopt;
  QuantPlan plan;
  if (node->kind == JsonKind::string) {
    plan = preset(params, node->text);
  } else if (node->kind == JsonKind::object) {
    plan.gate = read_projection(params, *node, "gate");
    plan.up = read_projection(params, *node, "up");
    plan.down = read_projection(params, *node, "down");
  } else {
    params.refuse("", "quant must be a preset string or a per-projection object");
  }
  if (node->source.size() > kQuantBytesMax) {
    params.refuse("quant", "longer than " + std::to_string(kQuantBytesMax) + " bytes");
  }
  if (!params.failed()) plan.echo_json = std::string(node->source);
  return plan;
}

std::optional<std::vector<ExpertIndex>> read_expert_list(ParamReader& params) {
  const JsonNode* node = params.find("experts");
  const bool is_list =
      node == nullptr || node->kind == JsonKind::numbers || (node->is_array() && node->count == 0);
  if (!is_list) params.refuse("", "experts must be an array of integers");
  return params.optional_u32_list("experts");
}

bool read_dense_f32(ParamReader& params) {
  const std::optional<std::string> name = params.optional_text("dense");
  if (name && *name != "f32") {
    params.refuse("dense", "unknown type '" + echo(*name) + "': expected f32");
  }
  return name.has_value();
}

std::optional<std::string> read_source(ParamReader& params) {
  std::optional<std::string> source = params.optional_text("source");
  if (!source) return source;
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (source->empty() || source->size() > kSourceBytesMax) {
    params.refuse("source", "must have 1 to " + std::to_string(kSourceBytesMax) + " bytes");
  } else if (std::any_of(source->begin(), source->end(), is_control)) {
    params.refuse("source", "holds a control character");
  }
  return source;
}

/// One layer, several in ascending order, or `all`.
void read_layers(ParamReader& params, PrepareExpertsCall& call) {
  const JsonNode* node = params.find("layer");
  if (node != nullptr && node->kind == JsonKind::string) {
    call.has_all_layers = node->text == "all";
    if (!call.has_all_layers)
      params.refuse("layer", "'" + echo(node->text) + "' is no layer: a number, a list or all");
    return;
  }
  const bool is_list = node != nullptr &&
                       (node->kind == JsonKind::numbers || (node->is_array() && node->count == 0));
  if (!is_list) {
    call.layer = params.u32("layer");
    return;
  }
  call.layers = params.optional_u32_list("layer").value_or(std::vector<LayerIndex>());
  std::sort(call.layers.begin(), call.layers.end());
  call.layers.erase(std::unique(call.layers.begin(), call.layers.end()), call.layers.end());
  if (call.layers.empty()) {
    params.refuse("layer", "is an empty list");
  } else if (call.layers.size() > kLayersMax) {
    params.refuse("layer", "has more than " + std::to_string(kLayersMax) + " layers");
  } else {
    call.layer = call.layers.front();
  }
}

/// A plain name: the file lies beside the checkpoint's own.
std::optional<std::string> read_imatrix(ParamReader& params) {
  std::optional<std::string> name = params.optional_text("imatrix");
  if (!name) return name;
  const bool is_plain = !name->empty() && name->size() <= kFileNameBytesMax && *name != "." &&
                        *name != ".." && std::none_of(name->begin(), name->end(), [](char c) {
                          return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
                        });
  if (!is_plain) params.refuse("imatrix", "must be the name of a file in the source's folder");
  return name;
}

Result<Call> read_prepare_experts(ParamReader& params) {
  PrepareExpertsCall call;
  call.model = params.model_id();
  read_layers(params, call);
  call.experts = read_expert_list(params);
  call.include_gate = params.flag_or("include_gate", true);
  call.quant = read_quant(params);
  call.strict = params.flag_or("strict", false);
  call.dense_f32 = read_dense_f32(params);
  call.imatrix = read_imatrix(params);
  call.source = read_source(params);
  call.loads = params.flag_or("load", false);
  return params.finish(std::move(call));
}

Result<Call> read_prepare_status(ParamReader& params) {
  PrepareStatusCall call;
  call.job_id = params.text("job_id");
  call.is_summary = params.flag_or("summary", false);
  return params.finish(std::move(call));
}

Result<Call> read_prepare_list(ParamReader& params) {
  return params.finish(PrepareListCall{});
}

Result<Call> read_prepare_cancel(ParamReader& params) {
  return params.finish(PrepareCancelCall{params.text("job_id")});
}

Result<Call> read_prepare_resume(ParamReader& params) {
  return params.finish(PrepareResumeCall{params.text("job_id")});
}

// ---- the table

constexpr MethodError kPrepareErrors[] = {
    {-32602, "unknown catalog model_id: M"},
    {-32602, "M is not a MoE catalog entry"},
    {-32602, "experts must be an array of integers"},
    {-32602, "expert N out of range: M has K routed experts"},
    {-32602, "unknown quant kind 'X': expected q8_0, q4_k, or q6_k"},
    {-32602, "quant must be a preset string or a per-projection object"},
    {-32004, "no safetensors checkpoint source mapped for M"},
    {-32004, "no MoE tensor-naming scheme for architecture A"}};
constexpr MethodError kJobErrors[] = {{-32602, "missing job_id"},
                                      {-32602, "unknown prepare job: ID"}};
constexpr MethodError kResumeErrors[] = {
    {-32602, "unknown prepare job: ID"},
    {-32602, "prepare job ID is running: only one that failed or was cancelled is resumed"}};

constexpr Method kMethods[] = {
    {"tenzro_moePrepareExperts", Scope::admin,
     "Starts a job that slices a layer's experts out of a checkpoint, quantises them and publishes "
     "the blobs.",
     kPrepareParams,
     "The `job_id`, what the job will do, and `state` running. Where the source wants to be left "
     "alone first, or says nothing of the checkpoint for five seconds: `state` waiting and "
     "`total_experts` 0; what is wrong with the call is then the job's `error`.",
     kPrepareErrors, R"({"model_id":"qwen3-30b-a3b","layer":0,"experts":[0,1],"quant":"q4_k_m"})",
     R"({"job_id":"2f9b6a0e-8c1d-4a57-9d52-6b1f0c3e7a44","model_id":"qwen3-30b-a3b","layer":0,"total_experts":2,"include_gate":true,"quant":"q4_k_m","state":"running"})",
     read_prepare_experts},
    {"tenzro_moePrepareStatus", Scope::read, "How far a job is, and the blobs it has published.",
     kStatusParams,
     "`state` (waiting for what the checkpoint says of itself, running, completed, failed, "
     "cancelled), `error` or null, `experts` with the URI, "
     "bytes and weight types that each really has, and `gate` or null; of a job of several layers "
     "`layer` is their list, and `gates` has a row a layer. `progress`: bytes of the checkpoint "
     "read "
     "and wanted, bytes published, milliseconds since the job began or was taken up again, and "
     "about "
     "how many are left (null where that is not known); `waiting` is null, or `waiting for rate "
     "limit` with `waiting_ms`.",
     kJobErrors, R"({"job_id":"2f9b6a0e-8c1d-4a57-9d52-6b1f0c3e7a44"})",
     R"({"job_id":"2f9b6a0e-8c1d-4a57-9d52-6b1f0c3e7a44","model_id":"qwen3-30b-a3b","layer":0,"source":"/models/qwen3-30b-a3b","state":"completed","error":null,"total_experts":1,"completed_experts":1,"progress":{"bytes_read":9437184,"bytes_wanted":9437184,"bytes_published":3473736,"elapsed_ms":120,"left_ms":null,"waiting":null,"waiting_ms":null},"experts":[{"layer":0,"expert":0,"uri":"tenzro://blob/03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8","bytes":2949120,"quant":"q4_k","weights":{"gate":{"type":"q4_k","bits":4.5},"up":{"type":"q4_k","bits":4.5},"down":{"type":"q6_k","bits":6.5625}}}],"gate":{"uri":"tenzro://blob/03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8","bytes":524368}})",
     read_prepare_status},
    {"tenzro_moePrepareList",
     Scope::read,
     "The jobs that this node remembers.",
     {},
     "`jobs`, each as of tenzro_moePrepareStatus but without its experts and gates, the first "
     "started first, and their `count`. Jobs outlive the node; the oldest are forgotten.",
     {},
     "{}",
     R"({"jobs":[{"job_id":"2f9b6a0e-8c1d-4a57-9d52-6b1f0c3e7a44","model_id":"qwen3-30b-a3b","layer":0,"source":"/models/qwen3-30b-a3b","state":"running","error":null,"total_experts":128,"completed_experts":0,"progress":{"bytes_read":0,"bytes_wanted":0,"bytes_published":0,"elapsed_ms":2,"left_ms":null,"waiting":null,"waiting_ms":null},"experts":[],"gate":null}],"count":1})",
     read_prepare_list},
    {"tenzro_moePrepareCancel", Scope::admin,
     "Stops a job; blobs that are published stay published.", kJobParams,
     "The `job_id`, and whether it was still running.", kJobErrors,
     R"({"job_id":"2f9b6a0e-8c1d-4a57-9d52-6b1f0c3e7a44"})",
     R"({"job_id":"2f9b6a0e-8c1d-4a57-9d52-6b1f0c3e7a44","cancelled":true})", read_prepare_cancel},
    {"tenzro_moePrepareResume", Scope::admin,
     "Goes on with a job that failed or was cancelled: what it has published is not made again. A "
     "job that the end of the node interrupted goes on by itself.",
     kJobParams, "As of tenzro_moePrepareExperts.", kResumeErrors,
     R"({"job_id":"2f9b6a0e-8c1d-4a57-9d52-6b1f0c3e7a44"})",
     R"({"job_id":"2f9b6a0e-8c1d-4a57-9d52-6b1f0c3e7a44","model_id":"qwen3-30b-a3b","layer":0,"total_experts":2,"include_gate":true,"quant":"q4_k_m","state":"running"})",
     read_prepare_resume},
};

}  // namespace

std::span<const Method> prepare_methods() {
  return kMethods;
}

}  // namespace tenzro::rpc
