// Every answer as JSON, and the OpenRPC document against calls and answers.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

#include "requests.hpp"

namespace tenzro::rpc {
namespace {

using nlohmann::json;
using tensor::WeightType;

/// The result that a client gets.
json result_of(const Answer& answer) {
  Exchange exchange = parse(R"({"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":1})");
  EXPECT_TRUE(exchange.take_call(0).has_value());
  exchange.set_outcome(0, answer);
  const BufferRef reply = exchange.encode(scalar_base64_kernels());
  const json parsed = json::parse(reply.text(), nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << reply.text();
  return parsed["result"];
}

Hash32 filled(std::uint8_t byte) {
  Hash32 hash{};
  hash.fill(byte);
  return hash;
}

const std::string kHex1(64, '1');
const std::string kHex2(64, '2');
constexpr std::uint8_t kByte1 = 0x11;
constexpr std::uint8_t kByte2 = 0x22;

BufferRef floats(const std::vector<float>& values) {
  return BufferRef::copy_of(std::as_bytes(std::span(values)));
}

// ---- one sample of every answer, with every optional part

ShardMapAnswer shard_map() {
  ShardMapAnswer answer;
  answer.model_id = "m";
  answer.covered_experts = 1;
  answer.distinct_providers = 2;
  answer.expert_holders_role_count = 3;
  answer.router_role_count = 4;
  answer.prefill_role_count = 5;
  answer.decode_role_count = 6;
  answer.replica_role_count = 7;
  answer.policy = {.min_replication = 3, .max_replication = 9, .hot_threshold_tps = 10};
  answer.under_replicated_experts = {{.layer = 7, .expert = 142}};
  answer.hot_experts = {{.layer = 3, .expert = 5}};
  answer.holders = {{.slot = {.layer = 0, .expert = 1},
                     .holders = {{.provider = filled(kByte1),
                                  .residency = Residency::warm,
                                  .committed_tps = 800,
                                  .iroh_endpoint_id = kHex2,
                                  .http_endpoint = std::nullopt,
                                  .blob_uri = "tenzro://blob/x"},
                                 {.provider = filled(kByte2),
                                  .residency = Residency::cold,
                                  .committed_tps = 0,
                                  .iroh_endpoint_id = std::nullopt,
                                  .http_endpoint = std::nullopt,
                                  .blob_uri = std::nullopt}}}};
  return answer;
}

PlanDispatchAnswer plan_dispatch() {
  PlanDispatchAnswer answer;
  answer.model_id = "m";
  answer.batches = {{.slot = {.layer = 1, .expert = 2},
                     .provider = filled(kByte1),
                     .iroh_endpoint_id = std::nullopt,
                     .http_endpoint = "http://h",
                     .token_indices = {0, 4}}};
  answer.token_assignments = {
      {.token_index = 4, .slots = {{{.layer = 1, .expert = 2}, filled(kByte2)}}}};
  return answer;
}

CatalogShapeAnswer catalog_shape() {
  return {.model_id = "m",
          .moe = CatalogShapeAnswer::Shape{.num_experts = 128,
                                           .experts_per_token = 8,
                                           .shared_experts = 1,
                                           .params_per_expert_x10 = 47},
          .architecture = "A"};
}

ExpertRow expert_row() {
  return {.key = {"m", 1, 2},
          .d_model = 32,
          .d_ff = 64,
          .approx_bytes = 5'000'000'000,
          .tier = Tier::disk,
          .quant = WeightType::q4_k,
          .source_uri = "tenzro://blob/x",
          .gate_type = WeightType::q4_k,
          .up_type = WeightType::q8_0,
          .down_type = WeightType::q6_k};
}

GateRow gate_row() {
  return {.key = {"m", 1}, .num_experts = 8, .d_model = 32, .approx_bytes = 1024};
}

ExpertStatusAnswer expert_status() {
  ExpertStatusAnswer answer;
  answer.experts = {expert_row()};
  answer.gates = {gate_row()};
  answer.total_bytes = 1;
  answer.memory_bytes = 2;
  answer.memory_budget_bytes = 3;
  answer.memory_experts = 4;
  answer.disk_experts = 5;
  answer.compute_backend = "cpu-amx";
  answer.gpu = true;
  answer.evicted_to_disk = 6;
  answer.evicted_dropped = 7;
  answer.admissions_over_budget = 8;
  answer.measured_tps = 9;
  return answer;
}

RoutedTokens routed() {
  return {.tokens = 2, .slots_per_token = 2, .slots = {{3, 0.7F}, {1, 0.3F}, {0, 1e-10F}, {2, 1}}};
}

ForwardAnswer forward() {
  ForwardAnswer answer;
  answer.key = {"m", 1};
  answer.d_model = 2;
  answer.top_k = 2;
  answer.tokens = 2;
  answer.batches = 3;
  answer.replans = 1;
  answer.missing = {{.slot = {.layer = 1, .expert = 9}, .tokens = {0, 1}}};
  answer.transports_local = 1;
  answer.transports_iroh = 2;
  answer.transports_http = 4;
  answer.routed = routed();
  answer.outputs = floats({1, -2.5F, 0, 3.75F});
  answer.carrier = "q8";
  answer.profile = "exact";
  return answer;
}

ExecuteAnswer execute() {
  return {.key = {"m", 1, 2},
          .d_model = 2,
          .token_indices = {7, 7},
          .outputs = floats({1, -2.5F, 0, 3.75F}),
          .receipt_json = R"({"provider":[1,2]})"};
}

PreparedBlob prepared() {
  return {.expert = 4,
          .uri = "tenzro://blob/x",
          .bytes = 99,
          .quant = WeightType::q6_k,
          .gate_type = std::nullopt,
          .up_type = WeightType::bf16,
          .down_type = WeightType::q6_k};
}

PrepareStatusAnswer prepare_status() {
  PrepareStatusAnswer answer;
  answer.job_id = "j";
  answer.key = {"m", 1};
  answer.state = PrepareState::failed;
  answer.error = "no\nspace";
  answer.total_experts = 2;
  answer.experts = {prepared()};
  answer.gate.emplace();
  answer.gate->uri = "tenzro://blob/g";
  answer.gate->bytes = 7;
  return answer;
}

NodeStatusAnswer node_status() {
  NodeStatusAnswer answer;
  answer.version = "0.1.0";
  answer.name = "n";
  answer.endpoint_id = filled(kByte1);
  answer.provider = filled(kByte2);
  answer.rpc_address = "127.0.0.1:8545";
  answer.quic_address = "0.0.0.0:9001";
  answer.uptime_s = 1;
  answer.peers = 2;
  answer.memory_bytes = 3;
  answer.memory_budget_bytes = 4;
  answer.experts = 5;
  answer.gates = 6;
  answer.queue_depth = 7;
  answer.queue_max = 8;
  answer.compute_backend = "cpu";
  answer.profile = "exact";
  answer.threads = 9;
  answer.draining = false;
  answer.forwards = 10;
  answer.forward_p50_us = 11;
  answer.forward_p99_us = 12;
  return answer;
}

// ---- encoding

TEST(Answers, ShardMapHasItsKeys) {
  EXPECT_EQ(result_of(shard_map()), json::parse(R"({"model_id":"m","covered_experts":1,
    "distinct_providers":2,"expert_holders_role_count":3,"router_role_count":4,
    "prefill_role_count":5,"decode_role_count":6,"replica_role_count":7,
    "policy":{"min_replication":3,"max_replication":9,"hot_threshold_tps":10},
    "under_replicated_experts":[{"layer":7,"expert":142}],"hot_experts":[{"layer":3,"expert":5}],
    "holders":[{"layer":0,"expert":1,"replication":2,"holders":[
      {"provider":")" + kHex1 + R"(","residency":"Warm","committed_tps":800,
       "iroh_endpoint_id":")" + kHex2 + R"(","http_endpoint":null,"blob_uri":"tenzro://blob/x"},
      {"provider":")" + kHex2 + R"(","residency":"Cold","committed_tps":0,
       "iroh_endpoint_id":null,"http_endpoint":null,"blob_uri":null}]}]})"));
}

TEST(Answers, AnUnknownModelsShardMapHasEmptyLists) {
  ShardMapAnswer answer;
  answer.model_id = "m";
  const json result = result_of(answer);
  EXPECT_EQ(result["holders"], json::array());
  EXPECT_EQ(result["hot_experts"], json::array());
  EXPECT_EQ(result["policy"],
            json::parse(R"({"min_replication":2,"max_replication":8,"hot_threshold_tps":1000})"));
}

TEST(Answers, PlanDispatchHasItsKeys) {
  EXPECT_EQ(result_of(plan_dispatch()), json::parse(R"({"model_id":"m","batch_count":1,
    "batches":[{"layer":1,"expert":2,"provider":")" +
                                                    kHex1 + R"(","iroh_endpoint_id":null,
      "http_endpoint":"http://h","token_indices":[0,4]}],
    "token_assignments":[{"token_index":4,
      "slots":[{"layer":1,"expert":2,"provider":")" +
                                                    kHex2 + R"("}]}]})"));
}

TEST(Answers, CatalogShapeIsNullForDenseModels) {
  EXPECT_EQ(result_of(catalog_shape()),
            json::parse(R"({"model_id":"m","is_moe":true,"moe":{"num_experts":128,
      "experts_per_token":8,"shared_experts":1,"params_per_expert_x10":47},"architecture":"A"})"));
  CatalogShapeAnswer unknown_size = catalog_shape();
  unknown_size.moe->params_per_expert_x10.reset();
  EXPECT_EQ(result_of(unknown_size)["moe"]["params_per_expert_x10"], nullptr);
  EXPECT_EQ(result_of(CatalogShapeAnswer{.model_id = "d", .moe = {}, .architecture = "B"}),
            json::parse(R"({"model_id":"d","is_moe":false,"moe":null,"architecture":"B"})"));
}

TEST(Answers, ExpertRowsLeaveOutWhatIsAbsent) {
  EXPECT_EQ(result_of(expert_row()), json::parse(R"({"model_id":"m","layer":1,"expert":2,
    "d_model":32,"d_ff":64,"approx_bytes":5000000000,"tier":"disk","quant":"q4_k",
    "source_uri":"tenzro://blob/x","weights":{"gate":{"type":"q4_k","bits":4.5},
    "up":{"type":"q8_0","bits":8.5},"down":{"type":"q6_k","bits":6.5625}}})"));
  ExpertRow plain;
  plain.key = {"m", 1, 2};
  plain.up_type = WeightType::bf16;
  EXPECT_EQ(result_of(plain), json::parse(R"({"model_id":"m","layer":1,"expert":2,"d_model":0,
    "d_ff":0,"approx_bytes":0,"tier":"memory",
    "weights":{"up":{"type":"bf16","bits":16.0},"down":{"type":"f32","bits":32.0}}})"));
}

TEST(Answers, GateRowHasItsKeys) {
  EXPECT_EQ(result_of(gate_row()), json::parse(R"({"model_id":"m","layer":1,"num_experts":8,
    "d_model":32,"approx_bytes":1024})"));
}

TEST(Answers, UnloadEchoesItsKey) {
  EXPECT_EQ(result_of(UnloadAnswer{.key = {"m", 1}, .expert = 2, .removed = true}),
            json::parse(R"({"model_id":"m","layer":1,"expert":2,"removed":true})"));
  EXPECT_EQ(result_of(UnloadAnswer{.key = {"m", 1}, .expert = {}, .removed = false}),
            json::parse(R"({"model_id":"m","layer":1,"removed":false})"));
}

TEST(Answers, ExpertStatusHasItsKeys) {
  json expected = json::parse(R"({"total_bytes":1,"memory_bytes":2,"memory_budget_bytes":3,
    "memory_experts":4,"disk_experts":5,"compute_backend":"cpu-amx","gpu":true,"evicted_to_disk":6,
    "evicted_dropped":7,"admissions_over_budget":8,"measured_tps":9,
    "memory_hits":0,"memory_misses":0,"promoted_to_memory":0})");
  expected["experts"] = json::array({result_of(expert_row())});
  expected["gates"] = json::array({result_of(gate_row())});
  EXPECT_EQ(result_of(expert_status()), expected);
}

TEST(Answers, RouteListsSlotsTokenByToken) {
  const json result = result_of(RouteAnswer{.key = {"m", 5}, .top_k = 2, .routed = routed()});
  EXPECT_EQ(result["tokens"], 2);
  EXPECT_EQ(result["top_k"], 2);
  EXPECT_EQ(result["routed"][0], json::parse(R"({"token_index":0,"slots":[
    {"layer":5,"expert":3,"weight":0.7},{"layer":5,"expert":1,"weight":0.3}]})"));
  EXPECT_EQ(result["routed"][1]["slots"][0]["weight"].get<float>(), 1e-10F);
  const json none = result_of(RouteAnswer{.key = {"m", 5}, .top_k = 2, .routed = {}});
  EXPECT_EQ(none["routed"], json::array());
  EXPECT_EQ(none["tokens"], 0);
}

TEST(Answers, WeightsReadBackBitForBit) {
  RoutedTokens tokens;
  Prng prng(5);
  for (int i = 0; i < 1000; ++i) {
    tokens.slots.push_back(
        {static_cast<ExpertIndex>(i), 1.0F / static_cast<float>(1 + prng.below(1'000'000'000))});
  }
  tokens.tokens = 100;
  tokens.slots_per_token = 10;
  const json result = result_of(RouteAnswer{.key = {"m", 5}, .top_k = 10, .routed = tokens});
  for (std::size_t i = 0; i < 1000; ++i) {
    const json& slot = result["routed"][i / 10]["slots"][i % 10];
    ASSERT_EQ(slot["weight"].get<float>(), tokens.slots[i].weight);
    ASSERT_EQ(slot["expert"], i);
  }
}

TEST(Answers, ForwardHasItsKeys) {
  json expected = json::parse(R"({"model_id":"m","layer":1,"d_model":2,"top_k":2,"tokens":2,
    "batches":3,"replans":1,"missing":[{"layer":1,"expert":9,"tokens":[0,1]}],
    "transports":{"local":1,"iroh":2,"http":4},"outputs":"AACAPwAAIMAAAAAAAABwQA==",
    "carrier":"q8","profile":"exact"})");
  expected["routed"] =
      result_of(RouteAnswer{.key = {"m", 1}, .top_k = 2, .routed = routed()})["routed"];
  EXPECT_EQ(result_of(forward()), expected);
}

TEST(Answers, ExecuteHasAReceiptOnlyWhereThereIsOne) {
  EXPECT_EQ(result_of(execute()), json::parse(R"({"model_id":"m","layer":1,"expert":2,
    "token_indices":[7,7],"d_model":2,"outputs":"AACAPwAAIMAAAAAAAABwQA==",
    "receipt":{"provider":[1,2]}})"));
  ExecuteAnswer unsigned_answer = execute();
  unsigned_answer.receipt_json.reset();
  EXPECT_FALSE(result_of(unsigned_answer).contains("receipt"));
}

TEST(Answers, PrepareJobsHaveTheirKeys) {
  EXPECT_EQ(result_of(PrepareStartedAnswer{.job_id = "j",
                                           .key = {"m", 1},
                                           .total_experts = 2,
                                           .include_gate = false,
                                           .quant_json = R"({"up":"q4_k"})"}),
            json::parse(R"({"job_id":"j","model_id":"m","layer":1,"total_experts":2,
              "include_gate":false,"quant":{"up":"q4_k"},"state":"running"})"));
  EXPECT_EQ(result_of(PrepareStartedAnswer{})["quant"], nullptr);
  const json status =
      json::parse(R"({"job_id":"j","model_id":"m","layer":1,"source":"","state":"failed",
    "error":"no\nspace","total_experts":2,"completed_experts":1,
    "progress":{"bytes_read":0,"bytes_wanted":0,"bytes_published":0,"elapsed_ms":0,"left_ms":null,
    "waiting":null,"waiting_ms":null},"experts":[{"layer":0,"expert":4,
    "uri":"tenzro://blob/x","bytes":99,"quant":"q6_k","weights":{
    "up":{"type":"bf16","bits":16.0},"down":{"type":"q6_k","bits":6.5625}}}],
    "gate":{"uri":"tenzro://blob/g","bytes":7}})");
  EXPECT_EQ(result_of(prepare_status()), status);
  EXPECT_EQ(result_of(PrepareStatusAnswer{})["error"], nullptr);
  EXPECT_EQ(result_of(PrepareStatusAnswer{})["gate"], nullptr);
  PrepareStatusAnswer several;
  several.layers = {1, 4};
  several.gates = {prepared()};
  several.completed_experts = 7;
  several.progress = {.left_ms = 5, .rate_limit_ms = 9};
  const json many = result_of(several);
  EXPECT_EQ(many["layer"], (json{1, 4}));
  EXPECT_EQ(many["gates"], json::parse(R"([{"layer":0,"uri":"tenzro://blob/x","bytes":99}])"));
  EXPECT_EQ(many["completed_experts"], 7);
  EXPECT_EQ(many["progress"]["left_ms"], 5);
  EXPECT_EQ(many["progress"]["waiting"], "waiting for rate limit");
  EXPECT_EQ(many["progress"]["waiting_ms"], 9);
  EXPECT_EQ(result_of(PrepareStartedAnswer{.layers = {2, 3}})["layer"], (json{2, 3}));
  EXPECT_EQ(result_of(PrepareListAnswer{.jobs = {prepare_status(), prepare_status()}}),
            (json{{"jobs", {status, status}}, {"count", 2}}));
  EXPECT_EQ(result_of(PrepareCancelAnswer{.job_id = "j", .cancelled = true}),
            json::parse(R"({"job_id":"j","cancelled":true})"));
  for (const auto& [state, name] :
       std::map<PrepareState, std::string>{{PrepareState::running, "running"},
                                           {PrepareState::completed, "completed"},
                                           {PrepareState::failed, "failed"},
                                           {PrepareState::cancelled, "cancelled"},
                                           {PrepareState::waiting, "waiting"}}) {
    PrepareStatusAnswer answer;
    answer.state = state;
    EXPECT_EQ(result_of(answer)["state"], name);
  }
}

TEST(Answers, BlobsAndEndpointHaveTheirKeys) {
  EXPECT_EQ(
      result_of(PublishBlobAnswer{.hash = filled(kByte1), .size_bytes = 5}),
      (json{{"tenzro_uri", "tenzro://blob/" + kHex1}, {"blake3_hex", kHex1}, {"size_bytes", 5}}));
  EXPECT_EQ(result_of(FetchBlobAnswer{.bytes = BufferRef::copy_of("hello")}),
            (json{{"bytes_b64", "aGVsbG8="}}));
  EXPECT_EQ(result_of(FetchBlobAnswer{}), (json{{"bytes_b64", ""}}));
  EXPECT_EQ(result_of(EndpointInfoAnswer{.endpoint_id = filled(kByte1), .alpns = {"a", "b"}}),
            (json{{"endpoint_id", kHex1},
                  {"endpoint_id_hex", kHex1},
                  {"docs_enabled", false},
                  {"alpns", {"a", "b"}}}));
  EXPECT_EQ(result_of(EndpointIdAnswer{.endpoint_id = filled(kByte2)}),
            (json{{"endpoint_id", kHex2}}));
  EXPECT_EQ(result_of(AlpnListAnswer{}), (json{{"alpns", json::array()}}));
}

TEST(Answers, NodeAnswersHaveTheirKeys) {
  EXPECT_EQ(result_of(node_status()), json::parse(R"({"version":"0.1.0","name":"n",
    "endpoint_id":")" + kHex1 + R"(","provider":")" +
                                                  kHex2 + R"(","rpc_address":"127.0.0.1:8545",
    "quic_address":"0.0.0.0:9001","uptime_s":1,"peers":2,"memory_bytes":3,"memory_budget_bytes":4,
    "experts":5,"gates":6,"queue_depth":7,"queue_max":8,"compute_backend":"cpu","profile":"exact",
    "threads":9,"draining":false,"forwards":10,"forward_p50_us":11,"forward_p99_us":12,
    "memory_experts":0,"memory_hits":0,"memory_misses":0,"promoted_to_memory":0,"evicted_to_disk":0,
    "measured_tps":0,"expert_jobs":0,"row_time_ns":0})"));
  NodeStatusAnswer leaving = node_status();
  leaving.drain =
      DrainProgress{.requests = 1, .only_here = 2, .movable = 3, .elapsed_s = 4, .left_s = 5};
  EXPECT_EQ(result_of(leaving)["drain"],
            json::parse(R"({"requests":1,"only_here":2,"movable":3,"elapsed_s":4,"left_s":5})"));
  EXPECT_EQ(result_of(NodeDrainAnswer{.draining = true}), (json{{"draining", true}}));
  EXPECT_EQ(result_of(ModelMetadataAnswer{.json = R"({"a":1})"}), (json{{"a", 1}}));
}

TEST(Answers, ProvidersHaveTheirKeys) {
  ProviderRow row{.name = "n", .software = "0.1.0", .is_suspect = true};
  row.rpc_endpoint = "http://h:1";
  row.addresses = {"h:2"};
  row.holdings = {{{"m", 3, 4}, Residency::cold, std::nullopt}};
  row.roles = {"ExpertHolder"};
  row.profiles = {"exact"};
  row.committed_tps = 5;
  row.active_requests = 1;
  row.max_concurrent_requests = 6;
  row.price_per_input_token = 7;
  row.minimum_price = 8;
  row.reputation = -9;
  row.last_seen_ms = 10;
  row.clock_lag_ms = -11;
  EXPECT_EQ(result_of(ListProvidersAnswer{.providers = {row}}),
            json::parse(R"([{"provider_address":")" + std::string(64, '0') + R"(","name":"n",
    "status":"suspect","self":false,"draining":false,"rpc_endpoint":"http://h:1",
    "iroh_endpoint_id":null,"addresses":["h:2"],"version":"0.1.0","capacity":{
    "max_concurrent_requests":6,"active_requests":1,"moe_holdings":[{"model_id":"m","layer":3,
    "expert":4,"residency":"Cold","committed_tps":5,"blob_uri":null}],"moe_roles":["ExpertHolder"],
    "moe_gpu":false,"profiles":["exact"],"committed_tps":5},"pricing":{"price_per_input_token":7,
    "minimum_price":8},"reputation":-9,"quarantined_until_ms":null,"last_seen_ms":10,
    "clock_lag_ms":-11}])"));
  row.is_draining = true;
  row.quarantined_until_ms = 1'800'000'000'123;
  EXPECT_EQ(result_of(ListProvidersAnswer{.providers = {row}})[0]["status"], "suspect");
  row.is_suspect = false;
  const json draining = result_of(ListProvidersAnswer{.providers = {row}})[0];
  EXPECT_EQ(draining["status"], "draining");
  EXPECT_EQ(draining["quarantined_until_ms"], 1'800'000'000'123);
  row.is_draining = false;
  EXPECT_EQ(result_of(ListProvidersAnswer{.providers = {row}})[0]["status"], "active");
  EXPECT_EQ(result_of(ListProvidersAnswer{}), json::array());
}

TEST(Answers, TextsAreEscaped) {
  GateRow row = gate_row();
  row.key.model = "a\"b\\c\xC3\xA9";
  EXPECT_EQ(result_of(row)["model_id"], row.key.model);
}

// ---- the document

json document() {
  return json::parse(open_rpc_document());
}

json example_params(const json& method) {
  json params = json::object();
  for (const json& param : method["examples"][0]["params"]) params[param["name"]] = param["value"];
  return params;
}

/// Names of members at all depths; arrays are represented by their first element.
json shape_of(const json& value) {
  if (value.is_object()) {
    json shape = json::object();
    for (const auto& [name, member] : value.items()) shape[name] = shape_of(member);
    return shape;
  }
  if (value.is_array() && !value.empty() && value[0].is_object()) {
    return json::array({shape_of(value[0])});
  }
  return value.is_array() ? json("array") : json("scalar");
}

TEST(OpenRpc, HasEveryMethodOnceWithWhatTheFormatDemands) {
  const json all = document();
  EXPECT_EQ(all["openrpc"], "1.2.6");
  EXPECT_TRUE(all["info"].contains("title") && all["info"].contains("version"));
  std::set<std::string> names;
  for (const json& method : all["methods"]) {
    SCOPED_TRACE(method["name"].get<std::string>());
    EXPECT_TRUE(names.insert(method["name"]).second);
    EXPECT_FALSE(method["summary"].get<std::string>().empty());
    EXPECT_TRUE(method["result"]["schema"].is_object());
    EXPECT_TRUE(method["params"].is_array());
    for (const json& param : method["params"]) {
      EXPECT_TRUE(param["schema"].is_object() && param["required"].is_boolean());
      EXPECT_FALSE(param["description"].get<std::string>().empty());
    }
  }
  EXPECT_EQ(names.size(), std::variant_size_v<Call>);
}

TEST(OpenRpc, EveryExampleIsACallOfItsMethod) {
  const json all = document();
  for (std::size_t i = 0; i < all["methods"].size(); ++i) {
    const std::string name = all["methods"][i]["name"];
    const std::string body = request(name, example_params(all["methods"][i]).dump());
    if (name == "rpc.discover") continue;
    Exchange exchange = parse(body);
    EXPECT_TRUE(exchange.take_call(0).has_value()) << body << '\n' << outcome_of(body);
  }
}

TEST(OpenRpc, EveryRequiredParameterIsMissedByName) {
  int tried = 0;
  const json all = document();
  for (const json& method : all["methods"]) {
    for (const json& param : method["params"]) {
      if (!param["required"].get<bool>()) continue;
      json params = example_params(method);
      params.erase(param["name"].get<std::string>());
      const std::string outcome =
          outcome_of(method["name"].get<std::string>(), std::string_view(params.dump()));
      EXPECT_NE(outcome.find("missing " + param["name"].get<std::string>()), std::string::npos)
          << method["name"] << ' ' << outcome;
      ++tried;
    }
  }
  EXPECT_GT(tried, 30);
}

TEST(OpenRpc, EveryParameterIsReadAndRefusesAnotherType) {
  int tried = 0;
  const json all = document();
  for (const json& method : all["methods"]) {
    for (const json& param : method["params"]) {
      const auto name = param["name"].get<std::string>();
      json params = example_params(method);
      // No parameter is an array of arrays.
      params[name] = json::array({json::array()});
      if (name == "hidden") params.erase("hidden_states");
      const std::string outcome =
          outcome_of(method["name"].get<std::string>(), std::string_view(params.dump()));
      EXPECT_EQ(outcome.substr(0, 6), "-32602") << method["name"] << ' ' << name << ' ' << outcome;
      EXPECT_NE(outcome.find(name), std::string::npos) << outcome;
      ++tried;
    }
  }
  EXPECT_GT(tried, 50);
}

TEST(OpenRpc, ScopesAreThoseOfTheReference) {
  std::map<std::string, std::set<std::string>> by_scope;
  const json all = document();
  for (const json& method : all["methods"]) {
    by_scope[method["x-scope"]].insert(method["name"]);
  }
  EXPECT_EQ(by_scope["execute"],
            (std::set<std::string>{"tenzro_moeRoute", "tenzro_moeForward", "tenzro_moeExecute"}));
  EXPECT_EQ(by_scope["admin"],
            (std::set<std::string>{
                "tenzro_moeExpertLoad", "tenzro_moeGateLoad", "tenzro_moeExpertUnload",
                "tenzro_moeGateUnload", "tenzro_moePrepareExperts", "tenzro_moePrepareCancel",
                "tenzro_moePrepareResume", "tenzro_iroh_publishBlob", "tenzro_nodeDrain"}));
}

TEST(OpenRpc, ExampleResultsHaveTheKeysOfTheAnswers) {
  ExecuteAnswer executed = execute();
  executed.receipt_json = "{}";
  PrepareStatusAnswer prepared_all = prepare_status();
  prepared_all.experts[0].gate_type = WeightType::q4_k;
  const std::map<std::string, Answer> answers{
      {"tenzro_moeShardMap", shard_map()},
      {"tenzro_moePlanDispatch", plan_dispatch()},
      {"tenzro_moeReplicationPolicy", Policy{}},
      {"tenzro_moeCatalogShape", catalog_shape()},
      {"tenzro_moeExpertLoad", expert_row()},
      {"tenzro_moeGateLoad", gate_row()},
      {"tenzro_moeExpertUnload", UnloadAnswer{.key = {"m", 1}, .expert = 2, .removed = true}},
      {"tenzro_moeGateUnload", UnloadAnswer{.key = {"m", 1}, .expert = {}, .removed = true}},
      {"tenzro_moeExpertStatus", expert_status()},
      {"tenzro_moeRoute", RouteAnswer{.key = {"m", 5}, .top_k = 2, .routed = routed()}},
      {"tenzro_moeForward", forward()},
      {"tenzro_moeExecute", executed},
      {"tenzro_moePrepareStatus", prepared_all},
      {"tenzro_moePrepareList", PrepareListAnswer{.jobs = {PrepareStatusAnswer{}}}},
      {"tenzro_moePrepareExperts", PrepareStartedAnswer{}},
      {"tenzro_moePrepareResume", PrepareStartedAnswer{}},
      {"tenzro_moePrepareCancel", PrepareCancelAnswer{}},
      {"tenzro_iroh_publishBlob", PublishBlobAnswer{}},
      {"tenzro_iroh_fetchBlob", FetchBlobAnswer{}},
      {"tenzro_iroh_getInfo", EndpointInfoAnswer{}},
      {"tenzro_iroh_getEndpointId", EndpointIdAnswer{}},
      {"tenzro_iroh_listAlpns", AlpnListAnswer{}},
      {"tenzro_nodeStatus", node_status()},
      {"tenzro_nodeDrain", NodeDrainAnswer{}}};
  std::size_t compared = 0;
  const json all = document();
  for (const json& method : all["methods"]) {
    const auto answer = answers.find(method["name"]);
    if (answer == answers.end()) continue;
    ++compared;
    EXPECT_EQ(shape_of(method["examples"][0]["result"]["value"]),
              shape_of(result_of(answer->second)))
        << method["name"];
  }
  EXPECT_EQ(compared, answers.size());
}

}  // namespace
}  // namespace tenzro::rpc
