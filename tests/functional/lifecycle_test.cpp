// Start, restart, kill -9 and drain of a real process that serves a real layer.
#include <csignal>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "support/daemon_process.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

TEST(Lifecycle, AcknowledgedLoadsSurviveKillAndGiveTheSameBits) {
  const TempFolder folder;
  std::string before;
  {
    DaemonProcess daemon(folder.path() + "/a");
    ASSERT_TRUE(daemon.is_ready()) << daemon.log();
    const RpcClient client(daemon.rpc());
    load_tiny_layer(client, prepare_tiny_layer(client));
    before = client.result("tenzro_moeForward", tiny_forward(5)).value("outputs", "");
    daemon.signal(SIGKILL);
    EXPECT_EQ(daemon.wait(), 128 + SIGKILL);
  }
  DaemonProcess daemon(folder.path() + "/a");
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  EXPECT_EQ(client.result("tenzro_moeExpertStatus", nlohmann::json::array())["gates"].size(), 1U);
  EXPECT_EQ(client.result("tenzro_moeForward", tiny_forward(5)).value("outputs", "x"), before);
}

TEST(Lifecycle, EveryInstructionSetGivesTheSameBits) {
  const TempFolder folder;
  std::map<std::string, std::string> outputs;
  for (const char* isa : {"scalar", "avx2", "avx512", "avx512vnni"}) {
    DaemonProcess daemon(folder.path() + "/a", {.environment = {{"TENZRO_ISA", isa}}});
    if (!daemon.is_ready()) {
      EXPECT_EQ(daemon.wait(), 6) << daemon.log();  // a CPU without it says so
      continue;
    }
    const RpcClient client(daemon.rpc());
    if (outputs.empty()) load_tiny_layer(client, prepare_tiny_layer(client));
    const std::string backend =
        client.result("tenzro_moeExpertStatus", {}).value("compute_backend", "");
    outputs[backend] = client.result("tenzro_moeForward", tiny_forward(7)).value("outputs", "");
    EXPECT_EQ(outputs[backend], outputs["cpu"]) << backend;
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  }
  EXPECT_GE(outputs.size(), 2U);
}

TEST(Lifecycle, TermAnswersTheRequestInFlightThenExitsClean) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a");
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  load_tiny_layer(client, prepare_tiny_layer(client));
  const std::string addresses = folder.path() + "/a/addresses.json";
  EXPECT_TRUE(std::filesystem::exists(addresses));
  nlohmann::json reply;
  std::thread asking([&] { reply = client.call("tenzro_moeForward", tiny_forward(4096)); });
  // In flight once the node counts it: its own status call is the other one.
  while (client.result("tenzro_nodeStatus", {}).value("queue_depth", 0) < 2 && reply.is_null()) {
  }
  daemon.signal(SIGTERM);
  asking.join();
  EXPECT_TRUE(reply.contains("result")) << reply.dump().substr(0, 300);
  EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  EXPECT_FALSE(std::filesystem::exists(addresses));
}

TEST(Lifecycle, UnloadedExpertIsGoneAfterARestart) {
  const TempFolder folder;
  {
    DaemonProcess daemon(folder.path() + "/a");
    const RpcClient client(daemon.rpc());
    load_tiny_layer(client, prepare_tiny_layer(client));
    const auto unloaded = client.result("tenzro_moeExpertUnload",
                                        {{"model_id", "tiny"}, {"layer", 0}, {"expert", 3}});
    EXPECT_TRUE(unloaded.value("removed", false));
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0);
  }
  DaemonProcess daemon(folder.path() + "/a");
  const RpcClient client(daemon.rpc());
  EXPECT_EQ(client.result("tenzro_moeExpertStatus", {})["experts"].size(), 15U);
}

}  // namespace
}  // namespace tenzro::testing
