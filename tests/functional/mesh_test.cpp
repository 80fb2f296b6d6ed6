// Several real processes on loopback: killed, stopped, restarted, short of disk.
#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "support/mesh_processes.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

class MeshOfThree : public ::testing::Test {
 protected:
  MeshOfThree() : mesh_(3, 2), call_(tiny_forward(12)), expected_(outputs_of_one_node(call_)) {
    EXPECT_TRUE(mesh_.knows(0, kTinyExperts, 2));
  }

  void expect_bits() {
    const json answer = mesh_.router().result("tenzro_moeForward", call_);
    EXPECT_EQ(answer.value("outputs", ""), expected_);
  }

  MeshProcesses mesh_;
  json call_;
  std::string expected_;
};

TEST_F(MeshOfThree, RouterThatHoldsNothingAnswersWithTheBitsOfOneNode) {
  const json answer = mesh_.router().result("tenzro_moeForward", call_);
  EXPECT_EQ(answer.value("outputs", ""), expected_);
  EXPECT_EQ(answer["transports"]["local"], 0);
  EXPECT_GT(answer["transports"]["iroh"], 0);
}

TEST_F(MeshOfThree, HolderKilledWhileForwardsRunChangesNoBit) {
  std::atomic<bool> is_killed{false};
  std::thread killer([&] {
    mesh_.at(1).process().signal(SIGKILL);
    is_killed = true;
  });
  for (int after = 0; after < 20;) {
    if (is_killed) ++after;
    expect_bits();
  }
  killer.join();
}

TEST_F(MeshOfThree, StoppedHolderIsServedAround) {
  expect_bits();
  mesh_.at(2).process().signal(SIGSTOP);
  for (int i = 0; i < 5; ++i) expect_bits();
  mesh_.at(2).process().signal(SIGCONT);
  EXPECT_TRUE(mesh_.knows(0, kTinyExperts, 2));
  expect_bits();
}

TEST_F(MeshOfThree, HolderThatComesBackAfterAKillServesWithoutALoad) {
  mesh_.at(1).kill();
  expect_bits();
  mesh_.restart(1);
  EXPECT_TRUE(mesh_.knows(0, kTinyExperts, 2));
  mesh_.at(2).kill();
  expect_bits();
}

TEST_F(MeshOfThree, RouterKilledInAForwardComesBackAndServesWithoutALoad) {
  const std::string body = json{
      {"jsonrpc", "2.0"},
      {"id", 1},
      {"method", "tenzro_moeForward"},
      {"params",
       tiny_forward(4096)}}.dump();
  const RpcClient router = mesh_.router();
  std::future<HttpAnswer> asked = std::async(std::launch::async, [&] { return router.post(body); });
  // In flight once the node counts it: the status call itself is the other one.
  int in_flight = 0;
  while (in_flight < 2 && asked.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    in_flight = router.result("tenzro_nodeStatus", {}).value("queue_depth", 0);
  }
  EXPECT_EQ(in_flight, 2) << "the forward ended before the kill: the test shows nothing";
  mesh_.at(0).kill();
  EXPECT_EQ(asked.get().status, 0);
  mesh_.restart(0);
  EXPECT_TRUE(mesh_.knows(0, kTinyExperts, 2));
  expect_bits();
}

TEST_F(MeshOfThree, RollingRestartFailsNoRequest) {
  std::atomic<bool> is_over{false};
  std::atomic<int> served{0};
  std::vector<std::string> failures;
  std::thread client([&] {
    while (!is_over) {
      const json reply = mesh_.router().call("tenzro_moeForward", call_);
      if (!reply.contains("result") || reply["result"].value("outputs", "") != expected_) {
        failures.push_back(reply.dump().substr(0, 300));
        return;
      }
      ++served;
    }
  });
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    EXPECT_EQ(mesh_.at(i).terminate(), 0);
    mesh_.restart(i);
    EXPECT_TRUE(mesh_.knows(0, kTinyExperts, 2));
  }
  is_over = true;
  client.join();
  EXPECT_TRUE(failures.empty()) << failures.front();
  EXPECT_GT(served, 0);
}

TEST_F(MeshOfThree, EveryNodeListsEveryProvider) {
  for (std::size_t i = 0; i < mesh_.size(); ++i) {
    EXPECT_TRUE(mesh_.knows(i, kTinyExperts, 2));
    EXPECT_TRUE(lists_providers(mesh_.at(i).client(), mesh_.size()));
  }
}

/// Who holds what as the node says: without rates, which differ from moment to moment, and without
/// the places that a URI suggests.
json holders_of(const MeshNode& node) {
  json rows = node.client().result("tenzro_moeShardMap", {{"model_id", "tiny"}})["holders"];
  for (json& row : rows) {
    for (json& holder : row["holders"]) {
      holder.erase("committed_tps");
      if (!holder["blob_uri"].is_string()) continue;
      const std::string uri = holder.value("blob_uri", "");
      holder["blob_uri"] = uri.substr(0, uri.find('?'));
    }
  }
  return rows;
}

TEST(MeshProcessesTest, FiveNodesShowTheSameMap) {
  MeshProcesses mesh(5, 2);
  for (std::size_t i = 0; i < mesh.size(); ++i) {
    ASSERT_TRUE(mesh.knows(i, kTinyExperts, 2)) << "node " << i;
  }
  // URIs come after the holdings, with the holders' manifests.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (std::size_t i = 0; i < mesh.size();) {
    const json map = holders_of(mesh.at(i));
    const bool is_complete = map.dump().find("\"blob_uri\":null") == std::string::npos;
    if (is_complete && map == holders_of(mesh.at(0))) {
      ++i;
    } else {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "node " << i << map.dump();
    }
  }
}

TEST(MeshProcessesTest, FetcherWithoutDiskSaysSoAndKeepsServing) {
  MeshProcesses mesh(2, 1);
  const TempFolder folder;
  MeshNode small(folder.path(), "small");
  small.extra_config = "[holder]\ndisk_budget = 1024\n";
  small.start(mesh.at(0).entry());
  ASSERT_TRUE(lists_providers(small.client(), 3));
  const std::string uri = holders_of(mesh.at(1))[0]["holders"][0].value("blob_uri", "");
  const json reply = small.client().call("tenzro_moeExpertLoad",
                                         {{"model_id", "tiny"},
                                          {"layer", 0},
                                          {"expert", 0},
                                          {"uri", uri + "?n=" + mesh.at(0).endpoint_id()}});
  ASSERT_TRUE(reply.contains("error")) << reply.dump();
  EXPECT_EQ(reply["error"]["code"], -32000) << reply.dump();
  EXPECT_NE(reply["error"].value("message", "").find("1024"), std::string::npos) << reply.dump();
  EXPECT_EQ(small.client().result("tenzro_moeExpertStatus", json::array())["experts"].size(), 0U);
}

TEST(MeshProcessesTest, UriThatNobodyHasFailsByName) {
  MeshProcesses mesh(2, 1);
  const std::string uri = "tenzro://blob/" + std::string(64, 'a');
  const json reply = mesh.at(1).client().call(
      "tenzro_moeExpertLoad", {{"model_id", "tiny"}, {"layer", 0}, {"expert", 99}, {"uri", uri}});
  ASSERT_TRUE(reply.contains("error"));
  EXPECT_EQ(reply["error"]["code"], -32000);
  EXPECT_TRUE(reply["error"].value("message", "").starts_with("blob fetch: ")) << reply.dump();
}

}  // namespace
}  // namespace tenzro::testing
