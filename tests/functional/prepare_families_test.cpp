// Goal: the command turns a checkpoint of every family, and both tiny models, into experts that a
// real node serves.
// Method: each golden of tests/data/router in a folder of its own, beside the config.json of its
// family; `tenzro moe prepare-experts --load --follow`; then a forward over JSON-RPC against the
// output of the family's reference class.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/daemon_process.hpp"
#include "support/family_checkpoint.hpp"
#include "support/kimi_k25_checkpoint.hpp"
#include "support/rpc_client.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

const std::string kGoldens = std::string(TENZRO_TEST_DATA) + "/router";

/// A layer's input, and what its reference makes of it.
struct Expected {
  std::uint32_t width = 0;
  std::vector<float> rows;
  std::vector<std::int64_t> token_ids;
  std::vector<float> output;
};

Expected expected_of(const FamilyCase& golden) {
  return {.width = golden.layer.gate.d_model,
          .rows = golden.hidden,
          .token_ids = golden.token_ids,
          .output = golden.output};
}

class PrepareFamilies : public ::testing::Test {
 protected:
  PrepareFamilies() : node_(folder_.path() + "/node") {}

  void SetUp() override { ASSERT_TRUE(node_.is_ready()) << node_.log(); }

  [[nodiscard]] std::string write(const std::string& name, const std::string& config,
                                  const std::vector<std::byte>& file) const {
    std::string folder = folder_.path() + "/" + name;
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/config.json") << config;
    std::ofstream(folder + "/model.safetensors", std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
    return folder;
  }

  /// The command, whose model is named as `name` says.
  void prepare(const std::string& name, const std::string& arguments) const {
    const std::string line = std::string(TENZRO_CLI) + " --rpc http://" + node_.rpc() +
                             " moe prepare-experts --model-id " + name + " --load --follow " +
                             arguments + " 2>&1";
    FILE* const pipe = ::popen(line.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string text;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
      text.push_back(static_cast<char>(c));
    ASSERT_EQ(::pclose(pipe), 0) << name << ": " << text;
    ASSERT_NE(text.find("state   completed"), std::string::npos) << name << ": " << text;
  }

  void expect_served(const std::string& name, LayerIndex layer, const Expected& expected) const {
    const std::string rows(reinterpret_cast<const char*>(expected.rows.data()),
                           expected.rows.size() * sizeof(float));
    json params = {{"model_id", name},
                   {"layer", layer},
                   {"d_model", expected.width},
                   {"hidden_states", base64_of(rows)}};
    if (!expected.token_ids.empty()) params["token_ids"] = expected.token_ids;
    const json forward = RpcClient(node_.rpc()).result("tenzro_moeForward", params);
    const std::string bytes = bytes_of_base64(forward.value("outputs", ""));
    std::vector<float> got(expected.output.size());
    ASSERT_EQ(bytes.size(), got.size() * sizeof(float)) << name;
    std::memcpy(got.data(), bytes.data(), bytes.size());
    float largest = 0;
    for (const float value : expected.output) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected.output[i], 1e-4F * largest) << name << " value " << i;
    }
  }

  TempFolder folder_;
  DaemonProcess node_;
};

std::string source(LayerIndex layer, const std::string& folder) {
  return "--layer " + std::to_string(layer) + " --source " + folder;
}

class PrepareFamily : public PrepareFamilies,
                      public ::testing::WithParamInterface<FamilyCheckpoint> {};

TEST_P(PrepareFamily, IsServedByTheCommandAsItsReferenceClassComputes) {
  const FamilyCheckpoint& one = GetParam();
  prepare(one.name, source(one.layer, write(one.name, one.config, file_of(one, kGoldens))));
  expect_served(one.name, one.layer, expected_of(load_family_case(one.name, kGoldens)));
}

INSTANTIATE_TEST_SUITE_P(Goldens, PrepareFamily,
                         ::testing::ValuesIn(family_checkpoints().begin(),
                                             family_checkpoints().end()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(PrepareFamilies, RelativesUnderTheirOwnNamesAreServedToo) {
  for (const RelatedCheckpoint& one : related_checkpoints()) {
    const FamilyCase golden = load_family_case(one.golden, kGoldens);
    prepare(one.name, source(one.layer, write(one.name, one.config, one.file(golden))));
    expect_served(one.name, one.layer, expected_of(golden));
  }
}

TEST_F(PrepareFamilies, AnInt4CheckpointIsServedAsItsFormulasSay) {
  const KimiK25Checkpoint kimi = make_kimi_k25_checkpoint();
  prepare("kimi", "--dense f32 " + source(kKimiK25Layer, write("kimi", kKimiK25Config, kimi.file)));
  expect_served("kimi", kKimiK25Layer,
                {.width = kimi.width, .rows = kimi.rows, .token_ids = {}, .output = kimi.output});
}

TEST_F(PrepareFamilies, BothTinyModelsAreServedWhole) {
  for (const char* model : {"tiny-qwen3-moe", "tiny-deepseek-v3"}) {
    const std::string folder = std::string(TENZRO_TEST_DATA) + "/models/" + model;
    prepare(model, "--layer all --source " + folder);
    const TensorTable trace({folder + "/trace_public.safetensors"});
    for (const LayerIndex layer : {1U, 2U}) {
      const std::string at = "prompt0.layers." + std::to_string(layer) + ".";
      if (!trace.has(at + "moe_input")) continue;
      expect_served(model, layer,
                    {.width = 256,
                     .rows = trace.floats(at + "moe_input"),
                     .token_ids = {},
                     .output = trace.floats(at + "moe_output")});
    }
  }
}

}  // namespace
}  // namespace tenzro::testing
