#include <string>

#include "method.hpp"
#include "param_reader.hpp"

namespace tenzro::rpc {
namespace {

// ---- parameters

constexpr Param kModelParams[] = {kModelIdParam};
constexpr Param kPlanParams[] = {
    kModelIdParam,
    {"routings",
     {"object[]",
      R"({"type":"array","items":{"type":"object","required":["token_index","experts"],"properties":{"token_index":{"type":"integer","minimum":0,"maximum":4294967295},"experts":{"type":"array","items":{"type":"object","required":["layer","expert"],"properties":{"layer":{"type":"integer","minimum":0,"maximum":4294967295},"expert":{"type":"integer","minimum":0,"maximum":4294967295}}}}}}})"},
     Need::required,
     "For each token: `token_index` and `experts`, each with `layer` and `expert`."},
    {"allow_cold", types::kFlag, Need::optional,
     "true: any holder; false: only holders that have the expert in memory; absent: those first."}};

// ---- readers

/// Where in `routings` something is wrong; made into text only then.
struct Place {
  std::size_t routing = 0;
  std::optional<std::size_t> expert;

  [[nodiscard]] std::string name() const {
    std::string text = "routings[" + std::to_string(routing) + ']';
    if (expert) text += ".experts[" + std::to_string(*expert) + ']';
    return text;
  }
};

/// A member that must be a u32; `missing` is the sentence where it is absent.
std::uint32_t read_index(ParamReader& params, const JsonNode& object, std::string_view name,
                         const Place& place, std::string_view missing) {
  const JsonNode* node = find_member(object, name);
  if (node == nullptr || node->kind == JsonKind::null) {
    params.refuse("", std::string(missing));
    return 0;
  }
  tl::expected<std::uint32_t, std::string> value = to_u32(*node);
  if (value) return *value;
  params.refuse(place.name() + '.' + std::string(name), std::move(value.error()));
  return 0;
}

bool is_object(ParamReader& params, const JsonNode& node, const Place& place) {
  if (node.kind == JsonKind::object) return true;
  params.refuse(place.name(), "must be an object");
  return false;
}

void refuse_as_object_array(ParamReader& params, const JsonNode& node, const std::string& name) {
  params.refuse(name, node.is_array() ? "must be an array of objects" : "must be an array");
}

std::vector<ExpertSlot> read_experts(ParamReader& params, const JsonNode& routing, Place place) {
  std::vector<ExpertSlot> slots;
  const JsonNode* experts = find_member(routing, "experts");
  if (experts == nullptr || experts->kind == JsonKind::null) {
    params.refuse("", "routing missing experts array");
    return slots;
  }
  if (experts->kind != JsonKind::array) {
    refuse_as_object_array(params, *experts, place.name() + ".experts");
    return slots;
  }
  slots.reserve(experts->count);
  for (const JsonNode& expert : JsonChildren(*experts)) {
    place.expert = slots.size();
    if (!is_object(params, expert, place)) return slots;
    ExpertSlot slot;
    slot.layer = read_index(params, expert, "layer", place, "expert missing layer");
    slot.expert = read_index(params, expert, "expert", place, "expert missing expert");
    if (params.failed()) return slots;
    slots.push_back(slot);
  }
  return slots;
}

std::vector<TokenRouting> read_routings(ParamReader& params) {
  std::vector<TokenRouting> routings;
  const JsonNode* node = params.find("routings");
  if (node == nullptr) {
    params.refuse("", "missing routings array");
    return routings;
  }
  if (params.failed()) return routings;
  if (node->kind != JsonKind::array) {
    refuse_as_object_array(params, *node, "routings");
    return routings;
  }
  routings.reserve(node->count);
  for (const JsonNode& entry : JsonChildren(*node)) {
    const Place place{routings.size(), std::nullopt};
    if (!is_object(params, entry, place)) return routings;
    TokenRouting routing;
    routing.token_index =
        read_index(params, entry, "token_index", place, "routing missing token_index");
    routing.experts = read_experts(params, entry, place);
    if (params.failed()) return routings;
    routings.push_back(std::move(routing));
  }
  return routings;
}

Result<Call> read_shard_map(ParamReader& params) {
  return params.finish(ShardMapCall{params.model_id()});
}

Result<Call> read_plan_dispatch(ParamReader& params) {
  PlanDispatchCall call;
  call.model = params.model_id();
  call.routings = read_routings(params);
  call.allow_cold = params.optional_flag("allow_cold");
  return params.finish(std::move(call));
}

Result<Call> read_replication_policy(ParamReader& params) {
  return params.finish(ReplicationPolicyCall{});
}

Result<Call> read_catalog_shape(ParamReader& params) {
  return params.finish(CatalogShapeCall{params.model_id()});
}

Result<Call> read_model_metadata(ParamReader& params) {
  return params.finish(ModelMetadataCall{params.model_id()});
}

// ---- the table

constexpr MethodError kModelErrors[] = {{-32602, "missing model_id"}};
constexpr MethodError kCatalogErrors[] = {{-32602, "missing model_id"},
                                          {-32602, "unknown model_id: M"}};
constexpr MethodError kPlanErrors[] = {
    {-32602, "missing model_id"},
    {-32602, "missing routings array"},
    {-32602, "routing missing token_index"},
    {-32602, "routing missing experts array"},
    {-32602, "expert missing layer"},
    {-32602, "expert missing expert"},
    {-32000, "moe dispatch planner: expert lL/eE has no reachable holder"},
    {-32000, "moe dispatch planner: token routing list is empty"}};

constexpr Method kMethods[] = {
    {"tenzro_moeShardMap", Scope::read, "Who holds which expert of a model, as this node knows it.",
     kModelParams,
     "`holders`, sorted by layer and expert, each with its `replication` and its holders' "
     "`provider`, `residency` (Warm, Cold), `committed_tps`, addresses and `blob_uri`; counts of "
     "experts, providers and roles; the `policy`; `under_replicated_experts` and `hot_experts`. An "
     "unknown model gives zeros and empty lists.",
     kModelErrors, R"({"model_id":"qwen3-30b-a3b"})",
     R"({"model_id":"qwen3-30b-a3b","covered_experts":1,"distinct_providers":1,"expert_holders_role_count":1,"router_role_count":0,"prefill_role_count":0,"decode_role_count":0,"replica_role_count":0,"policy":{"min_replication":2,"max_replication":8,"hot_threshold_tps":1000},"under_replicated_experts":[{"layer":0,"expert":7}],"hot_experts":[{"layer":0,"expert":7}],"holders":[{"layer":0,"expert":7,"replication":1,"holders":[{"provider":"56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c","residency":"Warm","committed_tps":800,"iroh_endpoint_id":"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8","http_endpoint":null,"blob_uri":null}]}]})",
     read_shard_map},
    {"tenzro_moePlanDispatch", Scope::read,
     "Which holder would get which tokens, for routings that are known already.", kPlanParams,
     "`batches`, sorted by layer, expert and provider, each with the holder's addresses and its "
     "`token_indices`; `batch_count`; `token_assignments` in the order of the request.",
     kPlanErrors,
     R"({"model_id":"qwen3-30b-a3b","routings":[{"token_index":0,"experts":[{"layer":0,"expert":7}]}],"allow_cold":false})",
     R"({"model_id":"qwen3-30b-a3b","batch_count":1,"batches":[{"layer":0,"expert":7,"provider":"56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c","iroh_endpoint_id":null,"http_endpoint":"http://203.0.113.7:8545","token_indices":[0]}],"token_assignments":[{"token_index":0,"slots":[{"layer":0,"expert":7,"provider":"56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c"}]}]})",
     read_plan_dispatch},
    {"tenzro_moeReplicationPolicy",
     Scope::read,
     "How many holders an expert should have.",
     {},
     "The three numbers of the policy.",
     {},
     "{}",
     R"({"min_replication":2,"max_replication":8,"hot_threshold_tps":1000})",
     read_replication_policy},
    {"tenzro_moeCatalogShape", Scope::read, "The mixture-of-experts shape of a catalogue entry.",
     kModelParams,
     "`model_id`, `is_moe`, `architecture`, and `moe`: null, or the counts of experts, experts a "
     "token and shared experts, and `params_per_expert_x10` (or null).",
     kCatalogErrors, R"({"model_id":"qwen3-30b-a3b"})",
     R"({"model_id":"qwen3-30b-a3b","is_moe":true,"moe":{"num_experts":128,"experts_per_token":8,"shared_experts":0,"params_per_expert_x10":null},"architecture":"Qwen3Moe"})",
     read_catalog_shape},
    {"tenzro_modelMetadata", Scope::read, "All that the catalogue knows of a model.", kModelParams,
     "The catalogue's entry.", kCatalogErrors, R"({"model_id":"qwen3-30b-a3b"})",
     R"({"model_id":"qwen3-30b-a3b"})", read_model_metadata},
};

}  // namespace

std::span<const Method> shard_methods() {
  return kMethods;
}

}  // namespace tenzro::rpc
