#pragma once
/// \file
/// Calls about experts of layer 0 of a model "m" on a real process.
#include <cstdint>
#include <string>
#include <vector>

#include "support/rpc_client.hpp"

namespace tenzro::testing {

/// The request that loads one; `source` is "uri" or "blob_base64".
[[nodiscard]] inline std::string load_body(int expert, const char* source,
                                           const std::string& value) {
  return nlohmann::json{
      {"jsonrpc", "2.0"},
      {"id", 1},
      {"method", "tenzro_moeExpertLoad"},
      {"params", {{"model_id", "m"}, {"layer", 0}, {"expert", expert}, {source, value}}}}
      .dump();
}

/// What it makes of one row [width] of 0.5.
[[nodiscard]] inline nlohmann::json execute(const RpcClient& client, int expert,
                                            std::uint32_t width) {
  const std::vector<float> row(width, 0.5F);
  const std::string bytes(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
  return client.result("tenzro_moeExecute", {{"model_id", "m"},
                                             {"layer", 0},
                                             {"expert", expert},
                                             {"d_model", width},
                                             {"token_indices", {0}},
                                             {"hidden_states", base64_of(bytes)}});
}

}  // namespace tenzro::testing
