// Start, restart, kill -9 and drain of a real process that serves a real layer.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>

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

TEST(Lifecycle, HangUpEndsNothingAndIsLogged) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a");
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  daemon.signal(SIGHUP);
  daemon.signal(SIGHUP);
  EXPECT_TRUE(client.result("tenzro_moeExpertStatus", {}).contains("experts"));
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0) << daemon.log();  // which reads the log to its end
  EXPECT_NE(daemon.log().find("SIGHUP"), std::string::npos) << daemon.log();
}

TEST(Lifecycle, TermWhileStartingEndsClean) {
  const TempFolder folder;
  for (const int number : {SIGTERM, SIGINT}) {
    DaemonProcess daemon(folder.path() + "/a", {.signal_while_starting = number});
    EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  }
}

/// Long enough to be met by a signal, and over well within the ten seconds that a node gives it;
/// the thread sanitizer makes the kernels some twenty times slower.
#ifdef __SANITIZE_THREAD__
constexpr int kRowsInFlight = 256;
#else
constexpr int kRowsInFlight = 4096;
#endif

TEST(Lifecycle, TermAnswersTheRequestInFlightThenExitsClean) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a");
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  load_tiny_layer(client, prepare_tiny_layer(client));
  const std::string addresses = folder.path() + "/a/addresses.json";
  EXPECT_TRUE(std::filesystem::exists(addresses));
  const std::string body = tiny_forward(kRowsInFlight).dump();
  std::future<nlohmann::json> asked = std::async(std::launch::async, [&] {
    return client.call("tenzro_moeForward", nlohmann::json::parse(body));
  });
  // In flight once the node counts it: the status call itself is the other one.
  int in_flight = 0;
  while (in_flight < 2 && asked.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    in_flight = client.result("tenzro_nodeStatus", {}).value("queue_depth", 0);
  }
  EXPECT_EQ(in_flight, 2) << "the forward ended before the signal: the test shows nothing";
  daemon.signal(SIGTERM);
  const nlohmann::json reply = asked.get();
  EXPECT_TRUE(reply.contains("result")) << reply.dump().substr(0, 300);
  EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  EXPECT_FALSE(std::filesystem::exists(addresses));
}

TEST(Lifecycle, AbandonedForwardDoesNotHoldUpTheEnd) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a");
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  load_tiny_layer(client, prepare_tiny_layer(client));
  nlohmann::json request{{"jsonrpc", "2.0"},
                         {"id", 1},
                         {"method", "tenzro_moeForward"},
                         {"params", tiny_forward(8192)}};
  request["params"]["top_k"] = kTinyExperts;
  const std::string body = request.dump();
  client.send_and_leave(
      "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  EXPECT_EQ(daemon.log().find("still busy"), std::string::npos) << daemon.log();
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
