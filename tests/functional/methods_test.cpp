// Every method of this node over HTTP: its happy path, and the error codes that clients match on.
#include <cstring>

#include <gtest/gtest.h>

#include "support/daemon_process.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

class Methods : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    daemon_ = new DaemonProcess(folder_->path() + "/a");
    ASSERT_TRUE(daemon_->is_ready()) << daemon_->log();
    prepared_ = new json(prepare_tiny_layer(RpcClient(daemon_->rpc())));
    load_tiny_layer(RpcClient(daemon_->rpc()), *prepared_);
  }

  static void TearDownTestSuite() {
    delete prepared_;
    delete daemon_;
    delete folder_;
  }

  Methods() : client_(daemon_->rpc()) {}

  void expect_error(const std::string& method, const json& params, int code,
                    const std::string& words) const {
    const json reply = client_.call(method, params);
    ASSERT_TRUE(reply.contains("error")) << method << params.dump() << reply.dump().substr(0, 200);
    EXPECT_EQ(reply["error"]["code"], code) << reply.dump();
    const std::string message = reply["error"].value("message", "");
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }

  static TempFolder* folder_;
  static DaemonProcess* daemon_;
  static json* prepared_;
  RpcClient client_;
};

TempFolder* Methods::folder_ = nullptr;
DaemonProcess* Methods::daemon_ = nullptr;
json* Methods::prepared_ = nullptr;

TEST_F(Methods, StatusListsExpertsGatesAndTypes) {
  const json status = client_.result("tenzro_moeExpertStatus", json::array());
  ASSERT_EQ(status["experts"].size(), 16U);
  const json& row = status["experts"][0];
  EXPECT_EQ(row["quant"], "q8_0");
  EXPECT_EQ(row["weights"]["down"]["type"], "q8_0");
  EXPECT_EQ(row["source_uri"], (*prepared_)["experts"][0]["uri"]);
  EXPECT_EQ(status["gates"].size(), 1U);
  EXPECT_EQ(status["gpu"], false);
}

TEST_F(Methods, RouteAndForwardAgreeOnSlots) {
  const json route = client_.result("tenzro_moeRoute", tiny_forward(3));
  const json forward = client_.result("tenzro_moeForward", tiny_forward(3));
  EXPECT_EQ(route["routed"], forward["routed"]);
  EXPECT_EQ(route["tokens"], 3);
  EXPECT_EQ(route["top_k"], 4);
  EXPECT_EQ(forward["transports"]["local"], forward["batches"]);
  EXPECT_EQ(bytes_of_base64(forward.value("outputs", "")).size(), 3U * kTinyWidth * sizeof(float));
}

TEST_F(Methods, HiddenAsNumbersGivesTheBitsOfHiddenStates) {
  json params = tiny_forward(2);
  const std::string bytes = bytes_of_base64(params.value("hidden_states", ""));
  json numbers = json::array();
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    numbers.push_back(value);
  }
  const json first = client_.result("tenzro_moeForward", params);
  params.erase("hidden_states");
  params["hidden"] = numbers;
  EXPECT_EQ(client_.result("tenzro_moeForward", params)["outputs"], first["outputs"]);
}

TEST_F(Methods, ExecuteCarriesASignedReceipt) {
  json params = tiny_forward(2);
  params["expert"] = 7;
  params["token_indices"] = {5, 5};
  const json result = client_.result("tenzro_moeExecute", params);
  EXPECT_EQ(result["token_indices"], (json{5, 5}));
  EXPECT_EQ(result["receipt"]["signature"]["key_type"], "Ed25519");
  EXPECT_EQ(result["receipt"]["provider"].size(), 32U);
}

TEST_F(Methods, ShardMapAndPlanNameThisNodeAndItsUris) {
  const json map = client_.result("tenzro_moeShardMap", {{"model_id", "tiny"}});
  EXPECT_EQ(map["covered_experts"], 16);
  EXPECT_EQ(map["distinct_providers"], 1);
  EXPECT_EQ(map["holders"][3]["holders"][0]["blob_uri"], (*prepared_)["experts"][3]["uri"]);
  EXPECT_EQ(map["under_replicated_experts"].size(), 16U);
  const json plan = client_.result(
      "tenzro_moePlanDispatch",
      {{"model_id", "tiny"},
       {"routings",
        {{{"token_index", 0},
          {"experts", {{{"layer", 0}, {"expert", 1}}, {{"layer", 0}, {"expert", 2}}}}}}}});
  EXPECT_EQ(plan["batch_count"], 2);
  EXPECT_EQ(plan["batches"][0]["provider"], map["holders"][0]["holders"][0]["provider"]);
}

TEST_F(Methods, NeighbouringMethodsAnswer) {
  EXPECT_EQ(client_.result("tenzro_moeReplicationPolicy", json::array())["hot_threshold_tps"],
            1000);
  EXPECT_EQ(
      client_.result("tenzro_moeCatalogShape", {{"model_id", "kimi-k3"}})["moe"]["num_experts"],
      896);
  const std::string id =
      client_.result("tenzro_iroh_getInfo", {json::object()}).value("endpoint_id", "");
  EXPECT_EQ(id.size(), 64U);
  EXPECT_EQ(client_.result("tenzro_nodeStatus", {}).value("endpoint_id", ""), id);
  EXPECT_EQ(client_.result("tenzro_listProviders", {})[0]["capacity"]["moe_holdings"].size(), 16U);
  EXPECT_TRUE(client_.result("rpc.discover", {})["methods"].is_array());
}

TEST_F(Methods, ErrorsCarryTheCodesAndTextsOfTheReference) {
  expect_error("tenzro_moeShardMap", json::object(), -32602, "model_id");
  expect_error("tenzro_moePlanDispatch", {{"model_id", "tiny"}, {"routings", json::array()}},
               -32000, "moe dispatch planner: token routing list is empty");
  expect_error("tenzro_moeCatalogShape", {{"model_id", "nobody"}}, -32602,
               "unknown model_id: nobody");
  expect_error("tenzro_moeExpertLoad", {{"model_id", "m"}, {"layer", 0}, {"expert", 0}}, -32602,
               "missing blob_base64 or uri");
  expect_error("tenzro_moeExpertLoad",
               {{"model_id", "m"}, {"layer", 0}, {"expert", 0}, {"blob_base64", "!!!!"}}, -32602,
               "invalid blob_base64");
  expect_error(
      "tenzro_moeExpertLoad",
      {{"model_id", "m"}, {"layer", 0}, {"expert", 0}, {"blob_base64", base64_of("hello world")}},
      -32004, "expert load: ");
  expect_error("tenzro_moeExpertLoad",
               {{"model_id", "m"}, {"layer", 0}, {"expert", 0}, {"uri", "tenzro://x"}}, -32602,
               "invalid uri");
  expect_error("tenzro_moeExpertLoad",
               {{"model_id", "m"},
                {"layer", 0},
                {"expert", 0},
                {"uri", "tenzro://blob/" + std::string(64, 'a')}},
               -32000, "blob fetch: ");
  expect_error("tenzro_moeExpertLoad",
               {{"model_id", "m"}, {"layer", -1}, {"expert", 0}, {"uri", "x"}}, -32602, "layer");
  expect_error("tenzro_moeExpertLoad",
               {{"model_id", "m"}, {"layer", 4294967296}, {"expert", 0}, {"uri", "x"}}, -32602,
               "layer");
  expect_error("tenzro_moeGateLoad",
               {{"model_id", "m"}, {"layer", 0}, {"blob_base64", base64_of("hello world")}}, -32004,
               "gate load: ");
  expect_error("tenzro_moePrepareStatus", {{"job_id", "x"}}, -32602, "unknown prepare job: x");
  expect_error("tenzro_moePrepareExperts", {{"model_id", "nobody"}, {"layer", 0}}, -32602,
               "unknown catalog model_id: nobody");
  expect_error("tenzro_moePrepareExperts", {{"model_id", "tiny"}, {"layer", 0}, {"quant", "q3_k"}},
               -32602, "unknown quant kind 'q3_k': expected q8_0, q4_k, or q6_k");
}

TEST_F(Methods, ForwardErrorsNameTheFieldThatIsWrong) {
  json params = tiny_forward(1);
  params["layer"] = 9;
  expect_error("tenzro_moeForward", params, -32004,
               "moe route: gating network for tiny layer 9 is not loaded on this host");
  params = tiny_forward(1);
  params["top_k"] = 0;
  expect_error("tenzro_moeForward", params, -32602, "top_k must be >= 1");
  params = tiny_forward(1);
  params["d_model"] = 128;
  expect_error("tenzro_moeForward", params, -32602, "d_model");
  params = tiny_forward(1);
  params["hidden_states"] = base64_of("abc");
  expect_error("tenzro_moeForward", params, -32602, "hidden_states");
  params["hidden_states"] = "%%%";
  expect_error("tenzro_moeForward", params, -32602, "hidden_states: invalid base64");
  params = tiny_forward(1);
  params["hidden"] = {1.0};
  expect_error("tenzro_moeForward", params, -32602, "hidden");
  params = tiny_forward(0);
  expect_error("tenzro_moeForward", params, -32000,
               "moe dispatch planner: token routing list is empty");
  params = tiny_forward(1);
  params["expert"] = 99;
  params["token_indices"] = {0};
  expect_error("tenzro_moeExecute", params, -32004,
               "expert tiny l0/e99 is not loaded on this host");
}

}  // namespace
}  // namespace tenzro::testing
