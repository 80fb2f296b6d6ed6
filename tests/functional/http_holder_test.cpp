// A holder that announces no QUIC address: others have its experts executed over HTTP, signed.
#include <array>
#include <chrono>
#include <fstream>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "support/mesh_processes.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

// SHA-256 of "boss": whoever shows no token may do nothing, this machine's callers included.
constexpr const char* kTokens =
    "bob read,execute,admin a5e7c002443743c5836758c7d1cd8ddefd9fcf2061daa0efaac683fb99966057\n";
constexpr std::chrono::seconds kConvergenceMax{60};

class HttpHolder : public ::testing::Test {
 protected:
  HttpHolder() : router_(folder_.path(), "router"), holder_(folder_.path(), "holder") {
    const std::string tokens = folder_.path() + "/tokens";
    std::ofstream(tokens) << kTokens;
    holder_.extra_config =
        "[quic]\nadvertise = \"none\"\n[rpc]\ntokens_file = \"" + tokens + "\"\n";
  }

  /// The answer of the holder to a call with the token, or without.
  json ask_holder(const std::string& method, const json& params,
                  const std::string& token = "boss") {
    std::map<std::string, std::string> headers{{"Content-Type", "application/json"}};
    if (!token.empty()) headers["Authorization"] = "Bearer " + token;
    const json call{{"jsonrpc", "2.0"}, {"id", 1}, {"method", method}, {"params", params}};
    return json::parse(holder_.client().send("POST", "/", headers, call.dump()).body, nullptr,
                       false);
  }

  /// Starts both; the router keeps the gate, the holder gets every expert from it.
  void start() {
    router_.start("");
    holder_.start(router_.entry());
    const json prepared = prepare_tiny_layer(router_.client());
    const json gate = router_.client().result(
        "tenzro_moeGateLoad",
        {{"model_id", "tiny"}, {"layer", 0}, {"uri", prepared["gate"]["uri"]}});
    ASSERT_EQ(gate.value("num_experts", 0), kTinyExperts);
    ASSERT_TRUE(holder_knows_router());
    for (const json& expert : prepared["experts"]) {
      const json reply =
          ask_holder("tenzro_moeExpertLoad",
                     {{"model_id", "tiny"},
                      {"layer", 0},
                      {"expert", expert["expert"]},
                      {"uri", expert.value("uri", "") + "?n=" + router_.endpoint_id()}});
      ASSERT_TRUE(reply.contains("result")) << reply.dump();
    }
  }

  bool holder_knows_router() {
    const auto end = std::chrono::steady_clock::now() + kConvergenceMax;
    while (std::chrono::steady_clock::now() < end) {
      if (ask_holder("tenzro_listProviders", json::array())["result"].size() == 2) return true;
    }
    return false;
  }

  /// Asks the router until it knows every expert's holder.
  bool router_knows_all() {
    const auto end = std::chrono::steady_clock::now() + kConvergenceMax;
    while (std::chrono::steady_clock::now() < end) {
      map_ = router_.client().result("tenzro_moeShardMap", {{"model_id", "tiny"}});
      std::size_t held = 0;
      for (const json& row : map_["holders"]) held += row.value("replication", std::size_t{0});
      if (held == kTinyExperts) return true;
    }
    return false;
  }

  TempFolder folder_;
  MeshNode router_;
  MeshNode holder_;
  json map_;
};

TEST_F(HttpHolder, ServesTheRouterTheBitsOfOneNodeAndNobodyUnsigned) {
  start();
  ASSERT_TRUE(router_knows_all()) << map_.dump();
  EXPECT_EQ(map_["holders"][0]["holders"][0].value("http_endpoint", ""),
            "http://" + holder_.process().rpc());

  const json call = tiny_forward(12);
  const json answer = router_.client().result("tenzro_moeForward", call);
  EXPECT_EQ(answer.value("outputs", ""), outputs_of_one_node(call));
  EXPECT_GT(answer["transports"]["http"], 0);
  EXPECT_EQ(answer["transports"]["iroh"], 0);
  EXPECT_EQ(answer["transports"]["local"], 0);

  const std::string metrics = router_.client().send("GET", "/metrics", {}, "").body;
  EXPECT_NE(metrics.find("tenzro_http_client_calls_total{result=\"answered\"}"), std::string::npos);
  EXPECT_EQ(metrics.find("tenzro_forward_batches_total{transport=\"http\"} 0"), std::string::npos);

  const json execute{{"model_id", "tiny"},   {"layer", 0},
                     {"expert", 0},          {"d_model", kTinyWidth},
                     {"token_indices", {0}}, {"hidden", std::vector<float>(kTinyWidth, 1.0F)}};
  const json refused = ask_holder("tenzro_moeExecute", execute, "");
  ASSERT_TRUE(refused.contains("error")) << refused.dump();
  EXPECT_EQ(refused["error"]["code"], -32001);
  EXPECT_TRUE(ask_holder("tenzro_moeExecute", execute).contains("result"));
}

TEST_F(HttpHolder, GivesItsBlobsOverHttpToTheNodesOfItsMeshAndToNobodyElse) {
  router_.start("");
  holder_.start(router_.entry());
  const json started = ask_holder(
      "tenzro_moePrepareExperts",
      {{"model_id", "tiny"}, {"layer", 0}, {"experts", {0, 1}}, {"source", tiny_model_folder()}});
  json job;
  do {
    job = ask_holder("tenzro_moePrepareStatus",
                     {{"job_id", started["result"].value("job_id", "")}})["result"];
  } while (is_job_under_way(job));
  ASSERT_EQ(job.value("state", ""), "completed") << job.dump();
  ASSERT_TRUE(holder_knows_router());
  ASSERT_TRUE(lists_providers(router_.client(), 2));
  const std::string uri = job["experts"][1].value("uri", "");
  const json row = router_.client().result("tenzro_moeExpertLoad",
                                           {{"model_id", "tiny"},
                                            {"layer", 0},
                                            {"expert", 1},
                                            {"uri", uri + "?n=" + holder_.endpoint_id()}});
  EXPECT_EQ(row.value("tier", ""), "memory");
  const HttpAnswer stranger =
      holder_.client().send("GET", "/blob/" + uri.substr(uri.rfind('/') + 1), {}, "");
  EXPECT_EQ(stranger.status, 401);
}

TEST_F(HttpHolder, ThatIsGoneFailsTheForwardByName) {
  start();
  ASSERT_TRUE(router_knows_all()) << map_.dump();
  holder_.kill();
  const json reply = router_.client().call("tenzro_moeForward", tiny_forward(12));
  ASSERT_TRUE(reply.contains("error")) << reply.dump().substr(0, 300);
  const std::string message = reply["error"].value("message", "");
  EXPECT_TRUE(message.starts_with("expert l0/e") ||
              message.starts_with("moe dispatch planner: expert l0/e"))
      << message;
}

/// An address of this machine that is not loopback; empty where it has none.
std::string own_address() {
  std::string address;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return address;
  for (const ifaddrs* at = list; at != nullptr && address.empty(); at = at->ifa_next) {
    const bool is_usable = at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET &&
                           (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_usable) continue;
    const void* raw = at->ifa_addr;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &static_cast<const sockaddr_in*>(raw)->sin_addr, text.data(), text.size());
    address = text.data();
  }
  freeifaddrs(list);
  return address;
}

TEST(HttpExecution, OfAStrangerWithoutASignatureIsRefused) {
  const std::string address = own_address();
  if (address.empty()) GTEST_SKIP() << "this machine has no address but loopback";
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a",
                       {.arguments = {"--rpc-listen", "0.0.0.0:0", "--insecure"}});
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const std::string port = daemon.rpc().substr(daemon.rpc().rfind(':'));
  const json execute{{"model_id", "m"}, {"layer", 0},           {"expert", 0},
                     {"d_model", 1},    {"token_indices", {0}}, {"hidden", {1.0}}};
  const json stranger = RpcClient(address + port).call("tenzro_moeExecute", execute);
  EXPECT_EQ(stranger["error"]["code"], -32001) << stranger.dump();
  const json here = RpcClient("127.0.0.1" + port).call("tenzro_moeExecute", execute);
  EXPECT_EQ(here["error"]["code"], -32004) << here.dump();  // not loaded
}

}  // namespace
}  // namespace tenzro::testing
