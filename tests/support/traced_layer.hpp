#pragma once
/// \file
/// The first tiny model's layer 0, prepared and loaded over JSON-RPC, for tests that need a real
/// layer on a real node.
#include <string>

#include "support/rpc_client.hpp"

namespace tenzro::testing {

inline constexpr int kTinyWidth = 256;
inline constexpr int kTinyExperts = 16;

inline std::string tiny_model_folder() {
  return std::string(TENZRO_TEST_DATA) + "/models/tiny-qwen3-moe";
}

/// Whether a prepare job of that status goes on: on a slow machine it may still wait for its first
/// file when its start is answered.
inline bool is_job_under_way(const nlohmann::json& status) {
  const std::string state = status.value("state", "");
  return state == "running" || state == "waiting";
}

/// Prepares layer 0 in Q8_0 and waits for the job by asking; its status.
inline nlohmann::json prepare_tiny_layer(const RpcClient& client) {
  const nlohmann::json started = client.result(
      "tenzro_moePrepareExperts",
      {{"model_id", "tiny"}, {"layer", 0}, {"quant", "q8_0"}, {"source", tiny_model_folder()}});
  nlohmann::json status;
  do {
    status = client.result("tenzro_moePrepareStatus", {{"job_id", started.value("job_id", "")}});
  } while (is_job_under_way(status));
  EXPECT_EQ(status.value("state", ""), "completed") << status.dump();
  return status;
}

inline void load_tiny_layer(const RpcClient& client, const nlohmann::json& prepared) {
  const auto gate = client.result(
      "tenzro_moeGateLoad", {{"model_id", "tiny"}, {"layer", 0}, {"uri", prepared["gate"]["uri"]}});
  EXPECT_EQ(gate.value("num_experts", 0), kTinyExperts);
  for (const auto& expert : prepared["experts"]) {
    const auto row = client.result(
        "tenzro_moeExpertLoad",
        {{"model_id", "tiny"}, {"layer", 0}, {"expert", expert["expert"]}, {"uri", expert["uri"]}});
    EXPECT_EQ(row.value("tier", ""), "memory");
  }
}

/// base64 of `rows` rows of small numbers, all different.
inline std::string tiny_rows(int rows) {
  std::string bytes;
  for (int i = 0; i < rows * kTinyWidth; ++i) {
    const float value = static_cast<float>((i * 37) % 101 - 50) / 50.0F;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return base64_of(bytes);
}

inline nlohmann::json tiny_forward(int rows) {
  return {{"model_id", "tiny"},
          {"layer", 0},
          {"d_model", kTinyWidth},
          {"hidden_states", tiny_rows(rows)}};
}

}  // namespace tenzro::testing
