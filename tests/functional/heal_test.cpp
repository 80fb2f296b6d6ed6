// Real processes: a holder that leaves for good is replaced, one that is drained leaves without a
// failed request.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "support/mesh_processes.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

constexpr const char* kQuickRepair = "[repair]\ninterval_s = 1\ngrace_s = 3\nmax_admissions = 4\n";

void heal_quickly(std::size_t /*index*/, MeshNode& node) {
  node.extra_config = kQuickRepair;
}

double admitted_bytes(MeshProcesses& mesh, const std::vector<std::size_t>& nodes) {
  double bytes = 0;
  for (const std::size_t node : nodes)
    bytes += metric_of(mesh.at(node).client(), "tenzro_repair_admitted_bytes_total");
  return bytes;
}

TEST(MeshOfFour, HolderThatLeavesForGoodIsReplacedByCopiesOfTheOthers) {
  MeshProcesses mesh(4, 2, [](std::size_t /*index*/, MeshNode& node) {
    // Loads that come slowly look like a loss, and what is fetched too many then stays: a grace
    // longer than they take.
    node.extra_config = "[repair]\ninterval_s = 1\ngrace_s = 20\nmax_admissions = 4\n";
  });
  const json call = tiny_forward(12);
  const std::string expected = outputs_of_one_node(call);
  ASSERT_TRUE(mesh.knows(0, kTinyExperts, 2));
  const double before = admitted_bytes(mesh, {1, 2});
  mesh.at(3).kill();
  ASSERT_TRUE(lists_providers(mesh.router(), 3));
  EXPECT_TRUE(mesh.knows(0, kTinyExperts, 2));
  EXPECT_GT(admitted_bytes(mesh, {1, 2}), before);
  mesh.at(2).kill();  // every expert is on the last holder
  ASSERT_TRUE(lists_providers(mesh.router(), 2));
  EXPECT_EQ(mesh.router().result("tenzro_moeForward", call).value("outputs", ""), expected);
}

TEST(MeshOfFour, DrainedHolderLeavesWithoutOneFailedRequest) {
  MeshProcesses mesh(4, 1, [](std::size_t index, MeshNode& node) {
    heal_quickly(index, node);
    node.extra_config += "[policy]\nmin_replication = 1\n";
  });
  const json call = tiny_forward(12);
  const std::string expected = outputs_of_one_node(call);
  ASSERT_TRUE(mesh.knows(0, kTinyExperts, 1));
  std::atomic<bool> is_over{false};
  std::atomic<int> served{0};
  std::vector<std::string> failures;
  std::thread client([&] {
    while (!is_over && failures.empty()) {
      const json reply = mesh.router().call("tenzro_moeForward", call);
      if (reply.contains("result") && reply["result"].value("outputs", "") == expected) {
        ++served;
      } else {
        failures.push_back(reply.dump().substr(0, 300));
      }
    }
  });
  const std::string command = std::string(TENZRO_CLI) + " --rpc http://" + mesh.at(2).rpc() +
                              " drain --follow --limit-s 60 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_EQ(mesh.at(2).wait_for_end(), 0);
  std::string said;
  std::array<char, 4096> chunk{};
  while (const std::size_t got = std::fread(chunk.data(), 1, chunk.size(), pipe))
    said.append(chunk.data(), got);
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_NE(said.find("experts held by no other node"), std::string::npos) << said;
  EXPECT_NE(said.find("the node has stopped"), std::string::npos) << said;
  const int before = served;
  while (served < before + 10 && failures.empty()) std::this_thread::yield();
  is_over = true;
  client.join();
  EXPECT_TRUE(failures.empty()) << failures.front();
  EXPECT_TRUE(mesh.knows(0, kTinyExperts, 1));
}

}  // namespace
}  // namespace tenzro::testing
