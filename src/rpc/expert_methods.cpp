#include <string>

#include "method.hpp"
#include "param_reader.hpp"

namespace tenzro::rpc {
namespace {

// ---- parameters

constexpr Param kBlobParam{
    "blob_base64", types::kBase64, Need::optional,
    "The safetensors bytes. Wins over `uri` for loading. This or `uri` is required."};
constexpr Param kUriParam{
    "uri", types::kBlobUri, Need::optional,
    "A tenzro:// URI that carries the blob's hash. Beside inline bytes it is recorded as their "
    "source only where they hash to it."};
constexpr Param kExpertLoadParams[] = {kModelIdParam, kLayerParam, kExpertParam, kBlobParam,
                                       kUriParam};
constexpr Param kGateLoadParams[] = {kModelIdParam, kLayerParam, kBlobParam, kUriParam};
constexpr Param kExpertParams[] = {kModelIdParam, kLayerParam, kExpertParam};
constexpr Param kGateParams[] = {kModelIdParam, kLayerParam};

// ---- readers

/// The blob of a load: inline bytes, a URI, or both.
template <typename LoadCall>
void read_blob(ParamReader& params, LoadCall& call) {
  std::optional<BufferRef> blob = params.optional_base64("blob_base64");
  call.uri = params.optional_blob_uri("uri");
  call.has_inline = blob.has_value();
  if (blob) call.blob = *std::move(blob);
  if (!call.has_inline && !call.uri) params.refuse("", "missing blob_base64 or uri");
}

Result<Call> read_expert_load(ParamReader& params) {
  ExpertLoadCall call;
  call.key = params.expert_key();
  read_blob(params, call);
  return params.finish(std::move(call));
}

Result<Call> read_gate_load(ParamReader& params) {
  GateLoadCall call;
  call.key = params.layer_key();
  read_blob(params, call);
  return params.finish(std::move(call));
}

Result<Call> read_expert_unload(ParamReader& params) {
  return params.finish(ExpertUnloadCall{params.expert_key()});
}

Result<Call> read_gate_unload(ParamReader& params) {
  return params.finish(GateUnloadCall{params.layer_key()});
}

Result<Call> read_expert_status(ParamReader& params) {
  return params.finish(ExpertStatusCall{});
}

// ---- the table

constexpr MethodError kExpertLoadErrors[] = {
    {-32602, "missing blob_base64 or uri"}, {-32602, "invalid blob_base64: FAULT"},
    {-32602, "invalid uri: FAULT"},         {-32000, "blob fetch: REASON"},
    {-32004, "expert load: REASON"},        {-32000, "expert load: REASON"},
};
constexpr MethodError kGateLoadErrors[] = {
    {-32602, "missing blob_base64 or uri"}, {-32602, "invalid blob_base64: FAULT"},
    {-32602, "invalid uri: FAULT"},         {-32000, "blob fetch: REASON"},
    {-32004, "gate load: REASON"},          {-32000, "gate load: REASON"},
};

constexpr Method kMethods[] = {
    {"tenzro_moeExpertLoad", Scope::admin,
     "Loads one expert from safetensors bytes, given inline or fetched by hash. Until it is done, "
     "and "
     "when it fails, an earlier load of the same expert keeps serving.",
     kExpertLoadParams,
     "The expert's status row: its shape, the bytes that are really resident, its `tier`, the type "
     "and bits a weight of each projection, `quant` where a projection is quantised, `source_uri` "
     "where others can fetch it.",
     kExpertLoadErrors,
     R"({"model_id":"qwen3-30b-a3b","layer":0,"expert":7,"uri":"tenzro://blob/03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"})",
     R"({"model_id":"qwen3-30b-a3b","layer":0,"expert":7,"d_model":2048,"d_ff":768,"approx_bytes":5013504,"tier":"memory","quant":"q8_0","source_uri":"tenzro://blob/03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8","weights":{"gate":{"type":"q8_0","bits":8.5},"up":{"type":"q8_0","bits":8.5},"down":{"type":"q8_0","bits":8.5}}})",
     read_expert_load},
    {"tenzro_moeGateLoad", Scope::admin, "Loads the gating network of a layer.", kGateLoadParams,
     "The gate's status row.", kGateLoadErrors,
     R"({"model_id":"qwen3-30b-a3b","layer":0,"uri":"tenzro://blob/03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"})",
     R"({"model_id":"qwen3-30b-a3b","layer":0,"num_experts":128,"d_model":2048,"approx_bytes":1048576})",
     read_gate_load},
    {"tenzro_moeExpertUnload",
     Scope::admin,
     "Forgets an expert, on both tiers. Not an error where it is absent.",
     kExpertParams,
     "The key, and whether anything was `removed`.",
     {},
     R"({"model_id":"qwen3-30b-a3b","layer":0,"expert":7})",
     R"({"model_id":"qwen3-30b-a3b","layer":0,"expert":7,"removed":true})",
     read_expert_unload},
    {"tenzro_moeGateUnload",
     Scope::admin,
     "Forgets a gate. Not an error where it is absent.",
     kGateParams,
     "The key, and whether anything was `removed`.",
     {},
     R"({"model_id":"qwen3-30b-a3b","layer":0})",
     R"({"model_id":"qwen3-30b-a3b","layer":0,"removed":true})",
     read_gate_unload},
    {"tenzro_moeExpertStatus",
     Scope::read,
     "Experts and gates of this node, and its memory.",
     {},
     "`experts` and `gates`, rows as of the loads, sorted by model, layer and expert; bytes in use "
     "and the budget; counts by tier; the compute backend; evictions since the start; "
     "`measured_tps`, tokens a second over the last minute; and since the start the experts that "
     "requests found in memory (`memory_hits`), did not find there (`memory_misses`), and that "
     "came "
     "back from disk (`promoted_to_memory`).",
     {},
     "{}",
     R"({"experts":[{"model_id":"qwen3-30b-a3b","layer":0,"expert":7,"d_model":2048,"d_ff":768,"approx_bytes":5013504,"tier":"disk","quant":"q8_0","source_uri":"tenzro://blob/03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8","weights":{"gate":{"type":"q8_0","bits":8.5},"up":{"type":"q8_0","bits":8.5},"down":{"type":"q8_0","bits":8.5}}}],"gates":[{"model_id":"qwen3-30b-a3b","layer":0,"num_experts":128,"d_model":2048,"approx_bytes":1048576}],"total_bytes":1048576,"memory_bytes":0,"memory_budget_bytes":8589934592,"memory_experts":0,"disk_experts":1,"compute_backend":"cpu-avx512-vnni","gpu":false,"evicted_to_disk":1,"evicted_dropped":0,"admissions_over_budget":0,"measured_tps":0,"memory_hits":90,"memory_misses":10,"promoted_to_memory":10})",
     read_expert_status},
};

}  // namespace

std::span<const Method> expert_methods() {
  return kMethods;
}

}  // namespace tenzro::rpc
