#include <algorithm>
#include <string>

#include "tenzro/base/bytes.hpp"

#include "method.hpp"
#include "param_reader.hpp"
#include "rows_reader.hpp"

namespace tenzro::rpc {
namespace {

// ---- parameters

constexpr Param kDModelParam{"d_model", types::kPositiveU32, Need::required,
                             "Width of a hidden row."};
constexpr Param kHiddenStatesParam{
    "hidden_states", types::kBase64, Need::optional,
    "Rows of d_model f32 values, little-endian, row-major. Required unless `hidden` is given."};
constexpr Param kHiddenParam{"hidden", types::kNumberList, Need::optional,
                             "The same rows as numbers. Not together with `hidden_states`."};
constexpr Param kTopKParam{
    "top_k", types::kPositiveU32, Need::optional,
    "Experts a token. Default: the gate's own, then the catalogue's; at most the layer's experts."};
constexpr Param kTokenIdsParam{
    "token_ids", types::kI64List, Need::optional,
    "One id a row, for layers that route by token id; ignored by others."};
constexpr Param kRouterHiddenParam{
    "router_hidden_states", types::kBase64, Need::optional,
    "Rows of the same shape that the router reads, where they are not those of the experts."};
constexpr Param kAllowColdParam{
    "allow_cold", types::kFlag, Need::optional,
    "true: any holder; false: only holders that have the expert in memory; absent: those first."};
constexpr Param kProfileParam{"profile", types::kProfile, Need::optional,
                              "Numeric profile. Default: the node's."};

constexpr Param kRouteParams[] = {kModelIdParam, kLayerParam, kDModelParam,   kHiddenStatesParam,
                                  kHiddenParam,  kTopKParam,  kTokenIdsParam, kRouterHiddenParam};
constexpr Param kForwardParams[] = {
    kModelIdParam,
    kLayerParam,
    kDModelParam,
    kHiddenStatesParam,
    kHiddenParam,
    kTopKParam,
    kTokenIdsParam,
    kRouterHiddenParam,
    kAllowColdParam,
    {"allow_partial", types::kFlag, Need::optional,
     "true: when experts cannot be reached, scale what arrived instead of failing. Default false."},
    {"carrier",
     {"string", R"({"type":"string","enum":["auto","dense","q8"]})"},
     Need::optional,
     "How rows travel to holders. Default auto: Q8_0 where that loses nothing."},
    kProfileParam};
constexpr Param kExecuteParams[] = {
    kModelIdParam,
    kLayerParam,
    kExpertParam,
    kDModelParam,
    {"token_indices", types::kU32List, Need::required,
     "One index a row; repeated in the answer. Repetition is allowed."},
    kHiddenStatesParam,
    kHiddenParam,
    {"hidden_q8", types::kBase64, Need::optional,
     "The rows as Q8_0 blocks, d_model / 32 x 34 bytes each. Wins over the other two."},
    kProfileParam,
    {"nonce",
     {"string", R"({"type":"string","pattern":"^[0-9a-f]{32}$"})"},
     Need::optional,
     "32 lower-case hex digits: the answer to `moe/execute` then holds `receipt2` as well."}};

// ---- readers

std::optional<compute::Profile> read_profile(ParamReader& params) {
  const std::optional<std::string> name = params.optional_text("profile");
  if (!name) return std::nullopt;
  for (const compute::Profile profile : {compute::Profile::exact, compute::Profile::fast}) {
    if (*name == compute::name_of(profile)) return profile;
  }
  params.refuse("profile", "unknown profile '" + echo(*name) + "': expected exact or fast");
  return std::nullopt;
}

std::optional<std::array<std::uint8_t, 16>> read_nonce(ParamReader& params) {
  const std::optional<std::string> text = params.optional_text("nonce");
  if (!text) return std::nullopt;
  // A hash is twice as long, and its reader is strict.
  const std::optional<Hash32> twice = hash_from_hex(*text + *text);
  if (!twice) {
    params.refuse("nonce", "must be 32 lower-case hex digits");
    return std::nullopt;
  }
  std::array<std::uint8_t, 16> nonce{};
  std::copy_n(twice->begin(), nonce.size(), nonce.begin());
  return nonce;
}

std::optional<CarrierChoice> read_carrier(ParamReader& params) {
  const std::optional<std::string> name = params.optional_text("carrier");
  if (!name) return std::nullopt;
  if (*name == "auto") return CarrierChoice::automatic;
  if (*name == "dense") return CarrierChoice::dense;
  if (*name == "q8") return CarrierChoice::q8;
  params.refuse("carrier", "unknown carrier '" + echo(*name) + "': expected auto, dense, or q8");
  return std::nullopt;
}

/// Rows for the router alone; they must have the shape of `hidden`.
std::optional<Rows> read_router_hidden(ParamReader& params, const Rows& hidden) {
  const std::optional<NamedFloats> floats = read_floats(params, kRouterHiddenParam.name);
  if (!floats || params.failed()) return std::nullopt;
  Rows rows = to_rows(params, *floats, hidden.width);
  if (!params.failed() && rows.count != hidden.count) {
    params.refuse(floats->name, std::to_string(rows.count) + " rows, but " +
                                    std::to_string(hidden.count) + " rows of hidden states");
  }
  return rows;
}

RouteCall read_route(ParamReader& params) {
  RouteCall call;
  call.key = params.layer_key();
  call.d_model = params.positive_u32("d_model");
  call.top_k = params.optional_u32("top_k");
  if (call.top_k == 0U) params.refuse("", "top_k must be >= 1");
  const std::optional<NamedFloats> hidden = read_hidden(params);
  if (!hidden) params.refuse("", "missing hidden_states");
  if (params.failed()) return call;
  call.hidden = to_rows(params, *hidden, call.d_model);
  call.token_ids = params.optional_i64_list("token_ids");
  if (params.failed()) return call;
  call.router_hidden = read_router_hidden(params, call.hidden);
  return call;
}

Result<Call> read_route_call(ParamReader& params) {
  return params.finish(read_route(params));
}

Result<Call> read_forward_call(ParamReader& params) {
  ForwardCall call;
  call.route = read_route(params);
  call.allow_cold = params.optional_flag("allow_cold");
  call.allow_partial = params.flag_or("allow_partial", false);
  call.carrier = read_carrier(params);
  call.profile = read_profile(params);
  return params.finish(std::move(call));
}

/// f32 rows, one a token index; absent counts as none.
Rows read_dense_rows(ParamReader& params, std::size_t tokens, std::uint32_t d_model) {
  const NamedFloats floats = read_hidden(params).value_or(NamedFloats{"hidden_states", {}});
  if (params.failed()) return {};
  const std::size_t length = floats.data.size() / sizeof(float);
  // tokens < 2^32 and d_model < 2^32: the product fits.
  if (length != std::uint64_t{tokens} * d_model) {
    params.refuse(floats.name, "hidden-state length " + std::to_string(length) +
                                   " does not match " + std::to_string(tokens) +
                                   " tokens x d_model " + std::to_string(d_model));
    return {};
  }
  return to_rows(params, floats, d_model);
}

ExecuteCall read_execute(ParamReader& params) {
  ExecuteCall call;
  call.key = params.expert_key();
  call.d_model = params.positive_u32("d_model");
  if (params.find("token_indices") == nullptr) params.refuse("", "missing token_indices");
  call.token_indices =
      params.optional_u32_list("token_indices").value_or(std::vector<std::uint32_t>());
  call.profile = read_profile(params);
  call.nonce = read_nonce(params);
  if (params.failed()) return call;
  call.is_q8 = params.find("hidden_q8") != nullptr;
  if (call.is_q8) {
    const auto tokens = static_cast<std::uint32_t>(call.token_indices.size());
    call.hidden = read_q8_rows(params, tokens, call.d_model, call.carrier);
  } else {
    call.hidden = read_dense_rows(params, call.token_indices.size(), call.d_model);
    call.carrier = call.hidden.data;
  }
  return call;
}

/// Clients look for this sentence before the one that names the field.
Result<Call> read_execute_call(ParamReader& params) {
  Result<Call> call = params.finish(read_execute(params));
  if (call) return call;
  return fail(call.error().code, "invalid execute params", call.error().message());
}

// ---- the table

constexpr MethodError kRouteErrors[] = {
    {-32602, "hidden_states: invalid base64: FAULT"},
    {-32602, "hidden_states: f32 payload length is not a multiple of 4 bytes"},
    {-32602, "hidden_states: row R holds a value that is not finite"},
    {-32602, "top_k must be >= 1"},
    {-32602, "top_k not given and no catalog MoE shape for model_id: M"},
    {-32004, "moe route: gating network for M layer L is not loaded on this host"},
    {-32004, "moe route: token T has non-finite logits"}};
constexpr MethodError kForwardErrors[] = {
    {-32602, "as tenzro_moeRoute"},
    {-32000, "moe dispatch planner: expert lL/eE has no reachable holder"},
    {-32000, "moe dispatch planner: token routing list is empty"},
    {-32000, "moe failover replan: REASON"},
    {-32000, "moe forward: deadline exceeded"},
    {-32004, "moe route: gating network for M layer L is not loaded on this host"},
    {-32004, "expert L/E holder error: REASON"},
    {-32004, "moe combine: no expert output for token T from expert L/E"}};
constexpr MethodError kExecuteErrors[] = {
    {-32602, "invalid execute params: FIELD: REASON"},
    {-32602,
     "invalid execute params: hidden_states: hidden-state length N does not match T tokens x "
     "d_model D"},
    {-32004, "moe execute: expert M lL/eE is not loaded on this host"},
    {-32004, "moe execute: expert execution batch is empty"},
    {-32004, "moe execute: non-finite output for token T"}};

constexpr Method kMethods[] = {
    {"tenzro_moeRoute", Scope::execute,
     "Gates a batch of hidden rows: which experts each token goes to, with which weight.",
     kRouteParams,
     "`model_id`, `layer`, `top_k` as asked, `tokens`, and `routed`: for each token its slots by "
     "falling weight, the shared expert last.",
     kRouteErrors,
     R"({"model_id":"qwen3-30b-a3b","layer":0,"d_model":2,"hidden_states":"AACAPwAAAMA=","top_k":1})",
     R"({"model_id":"qwen3-30b-a3b","layer":0,"top_k":1,"tokens":1,"routed":[{"token_index":0,"slots":[{"layer":0,"expert":7,"weight":1}]}]})",
     read_route_call},
    {"tenzro_moeForward", Scope::execute,
     "One forward of a layer: gate, plan, run on this node and on holders, combine.",
     kForwardParams,
     "`model_id`, `layer`, `d_model`, `top_k`, `tokens`; `batches` and `replans` that were needed; "
     "`missing` experts with their tokens (only with allow_partial); successful batches by "
     "`transports`; `routed` as of tenzro_moeRoute; `outputs`, base64 of f32 rows; the `carrier` "
     "and "
     "`profile` that were used.",
     kForwardErrors,
     R"({"model_id":"qwen3-30b-a3b","layer":0,"d_model":2,"hidden":[1,-2],"top_k":1,"allow_cold":true})",
     R"({"model_id":"qwen3-30b-a3b","layer":0,"d_model":2,"top_k":1,"tokens":1,"batches":1,"replans":0,"missing":[{"layer":0,"expert":9,"tokens":[0]}],"transports":{"local":1,"iroh":0,"http":0},"routed":[{"token_index":0,"slots":[{"layer":0,"expert":7,"weight":1}]}],"outputs":"AACAPwAAAMA=","carrier":"dense","profile":"exact"})",
     read_forward_call},
    {"tenzro_moeExecute", Scope::execute, "Runs rows through one expert that this node holds.",
     kExecuteParams,
     "`model_id`, `layer`, `expert`, `token_indices` and `d_model` as asked; `outputs`, base64 of "
     "f32 "
     "rows in the order of the request; `receipt`, where the node signs.",
     kExecuteErrors,
     R"({"model_id":"qwen3-30b-a3b","layer":0,"expert":7,"d_model":2,"token_indices":[0],"hidden_states":"AACAPwAAAMA="})",
     R"({"model_id":"qwen3-30b-a3b","layer":0,"expert":7,"token_indices":[0],"d_model":2,"outputs":"AACAPwAAAMA=","receipt":{}})",
     read_execute_call},
};

}  // namespace

std::span<const Method> forward_methods() {
  return kMethods;
}

}  // namespace tenzro::rpc
