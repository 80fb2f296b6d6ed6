// One of two holders lies (lying_holder_main.cpp): the router finds out, and nobody else does.
#include <future>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "support/instrumented.hpp"
#include "support/mesh_processes.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

/// Under way together, so that both holders are asked whichever is the faster.
constexpr int kTogether = 4;
constexpr int kRoundsMax = 50;

/// A section of the router's configuration. An instrumented holder is slow without being silent.
std::string short_attempts() {
  return std::string("[forward]\nattempt_timeout_ms = ") + (kIsInstrumented ? "5000" : "500") +
         "\n";
}

class LyingHolder : public ::testing::TestWithParam<const char*> {};

TEST_P(LyingHolder, IsFoundOutAndForwardsKeepTheBitsOfOneNode) {
  const json call = tiny_forward(12);
  const std::string expected = outputs_of_one_node(call);
  // Silence is no failure where another holder can be asked in time; everything else is. Without
  // hedges the silent one is always given up, and never merely overtaken.
  const bool is_silent = std::string(GetParam()) == "silent";
  MeshProcesses mesh(3, 2, [&](std::size_t index, MeshNode& node) {
    if (index == 0) node.extra_config = short_attempts();
    if (index == 0 && is_silent) node.extra_config += "hedge = false\n";
    if (index != 2) return;
    node.program = TENZRO_LYING_DAEMON;
    node.environment = {{"TENZRO_LIE", GetParam()}};
  });
  ASSERT_TRUE(mesh.knows(0, kTinyExperts, 2));
  const char* const found = is_silent ? "tenzro_failovers_total" : "tenzro_peer_failures_total";
  int rounds = 0;
  double found_out = 0;
  while (found_out == 0 && ++rounds <= kRoundsMax) {
    std::vector<std::future<json>> forwards;
    for (int i = 0; i < kTogether; ++i) {
      forwards.push_back(std::async(std::launch::async, [&mesh, &call] {
        return mesh.router().call("tenzro_moeForward", call);
      }));
    }
    for (auto& forward : forwards) {
      const json reply = forward.get();
      ASSERT_TRUE(reply.contains("result")) << reply.dump();
      EXPECT_EQ(reply["result"].value("outputs", ""), expected);
    }
    found_out = metric_of(mesh.router(), found);
  }
  EXPECT_GE(found_out, 1);
  EXPECT_GE(metric_of(mesh.router(), "tenzro_failovers_total"), 1);
  EXPECT_EQ(metric_of(mesh.router(), "tenzro_forwards_total"), rounds * kTogether);
  EXPECT_EQ(metric_of(mesh.router(), "tenzro_forwards_failed_total"), 0);
}

TEST_P(LyingHolder, AloneFailsTheForwardByName) {
  const json call = tiny_forward(12);
  MeshProcesses mesh(2, 1, [](std::size_t index, MeshNode& node) {
    if (index == 0) {
      node.extra_config = "[forward]\nattempt_timeout_ms = 500\ndeadline_ms = 4000\n";
      return;
    }
    node.program = TENZRO_LYING_DAEMON;
    node.environment = {{"TENZRO_LIE", GetParam()}};
  });
  ASSERT_TRUE(mesh.knows(0, kTinyExperts, 1));
  json reply = mesh.router().call("tenzro_moeForward", call);
  if (std::string_view(GetParam()) == "replay") {  // the first time it is the truth
    ASSERT_TRUE(reply.contains("result")) << reply.dump();
    reply = mesh.router().call("tenzro_moeForward", call);
  }
  ASSERT_TRUE(reply.contains("error")) << "the lie went through";
  EXPECT_FALSE(reply["error"].value("message", "").empty());
  EXPECT_GE(metric_of(mesh.router(), "tenzro_peer_failures_total"), 1);
}

INSTANTIATE_TEST_SUITE_P(Lies, LyingHolder,
                         ::testing::Values("backend_nan", "nan", "flipped_sign", "missing_expert",
                                           "extra_row", "other_blob", "foreign_key", "replay",
                                           "truncated", "garbled", "silent"),
                         [](const auto& lie) { return std::string(lie.param); });

}  // namespace
}  // namespace tenzro::testing
