// Checkpoints from a hub on loopback: the blobs are those of the folder, whatever happens on the
// way, and a node that is killed goes on with the rest.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/daemon_process.hpp"
#include "support/hub_server.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kToken = "hf_secret_token_of_the_test";

std::string model_folder(const std::string& model) {
  return std::string(TENZRO_TEST_DATA) + "/models/" + model;
}

/// A node whose hub is the server.
class Prepare : public ::testing::Test {
 protected:
  void start(const HubServer& hub, const std::string& more = "",
             const std::map<std::string, std::string>& environment = {}) {
    const std::string config = folder_.path() + "/node.toml";
    std::ofstream(config) << "[prepare]\nhub_url = \"" << hub.url() << "\"\n" << more;
    DaemonProcess::Options options;
    options.arguments = {"--config", config};
    options.environment = environment;
    options.environment["TENZRO_HUB_TOKEN"] = kToken;
    node_ = std::make_unique<DaemonProcess>(folder_.path() + "/a", options);
    ASSERT_TRUE(node_->is_ready()) << node_->log();
  }

  [[nodiscard]] RpcClient client() const { return RpcClient(node_->rpc()); }

  [[nodiscard]] json status(const std::string& job) const {
    return client().result("tenzro_moePrepareStatus", {{"job_id", job}});
  }

  /// The job's end.
  [[nodiscard]] json wait_for(const std::string& job) const {
    json now = status(job);
    while (is_job_under_way(now)) now = status(job);
    return now;
  }

  [[nodiscard]] std::string begin(const json& params) const {
    return client().result("tenzro_moePrepareExperts", params).value("job_id", "");
  }

  [[nodiscard]] json run(const json& params) const { return wait_for(begin(params)); }

  static json call(const std::string& source, const json& layer = 0) {
    return {{"model_id", "tiny"}, {"layer", layer}, {"quant", "q8_0"}, {"source", source}};
  }

  static std::vector<std::string> uris_of(const json& status) {
    std::vector<std::string> uris;
    for (const json& expert : status["experts"]) uris.push_back(expert.value("uri", ""));
    if (status["gate"].is_object()) uris.push_back(status["gate"].value("uri", ""));
    for (const json& gate : status.value("gates", json::array()))
      uris.push_back(gate.value("uri", ""));
    return uris;
  }

  /// Copies a model to where a test may spoil it.
  std::string copy_of(const std::string& model) {
    const std::string target = folder_.path() + "/" + model;
    std::filesystem::copy(model_folder(model), target);
    return target;
  }

  TempFolder folder_;
  std::unique_ptr<DaemonProcess> node_;
};

TEST_F(Prepare, BothModelsOverHttpGiveTheBlobsOfTheirFoldersUnderEveryPreset) {
  for (const char* model : {"tiny-qwen3-moe", "tiny-deepseek-v3"}) {
    const HubServer hub(model_folder(model));
    start(hub);
    std::set<std::string> first;  // experts' blobs, one of each preset
    for (const char* preset : {"", "q8_0", "q4_k_m", "q4_k", "q6_k"}) {
      json params = call(model_folder(model), "all");
      params["quant"] = *preset == '\0' ? json(nullptr) : json(preset);
      const bool is_whole = params["quant"] == "q8_0";
      if (!is_whole) params["experts"] = {0, 7};
      const json local = run(params);
      ASSERT_EQ(local["state"], "completed") << local["error"];
      params["source"] = hub.url() + "/o/n/resolve/main";
      const json remote = run(params);
      ASSERT_EQ(remote["state"], "completed") << remote["error"];
      EXPECT_EQ(uris_of(remote), uris_of(local)) << preset;
      EXPECT_GT(uris_of(remote).size(), is_whole ? 32U : 4U);
      first.insert(uris_of(remote).at(0));
    }
    EXPECT_EQ(first.size(), 5U);
    for (const auto& request : hub.requests())
      EXPECT_EQ(request.headers.at("authorization"), "Bearer " + kToken);
    node_->signal(SIGTERM);
    EXPECT_EQ(node_->wait(), 0);
    EXPECT_THAT(node_->log(), Not(HasSubstr(kToken)));
  }
}

TEST_F(Prepare, OfAFewExpertsOnlyTheirBytesAreFetched) {
  const HubServer hub(model_folder("tiny-qwen3-moe"));
  start(hub);
  json params = call(hub.url() + "/m");
  params["experts"] = {3};
  params["include_gate"] = false;
  const json done = run(params);
  ASSERT_EQ(done["state"], "completed") << done["error"];
  std::uint64_t sent = 0;
  for (const auto& [file, bytes] : hub.bytes_sent()) sent += bytes;
  // The config, the index, headers and its matrices; a header is asked for with more than it turns
  // out to be.
  const auto wanted = done["progress"]["bytes_wanted"].get<std::uint64_t>();
  EXPECT_EQ(done["progress"]["bytes_read"], wanted);
  EXPECT_GE(sent, wanted);
  EXPECT_LE(sent, wanted + (3U << 16U));
}

TEST_F(Prepare, StormsOfRefusalsBrokenConnectionsAndSlowLinesDelayAndChangeNothing) {
  HubServer hub(model_folder("tiny-qwen3-moe"));
  start(hub);
  const json local = run(call(model_folder("tiny-qwen3-moe")));
  hub.set_rule([](const HubServer::Request& request) -> HubServer::Answer {
    if (request.number == 3) return {.status = 429, .headers = {"Retry-After: 1"}, .body = "slow"};
    if (request.number == 5) return {.status = 503, .headers = {}, .body = "busy"};
    if (request.number == 6) return {.status = 500, .headers = {}, .body = "oops"};
    if (request.number % 7 == 0) return {.headers = {}, .body = {}, .cut_after = 1000};
    HubServer::Answer answer;
    answer.is_slow = request.number % 5 == 0;
    return answer;
  });
  const json remote = run(call(hub.url() + "/m"));
  ASSERT_EQ(remote["state"], "completed") << remote["error"];
  EXPECT_EQ(uris_of(remote), uris_of(local));
}

TEST_F(Prepare, ARateLimitIsShownWhileItIsWaitedFor) {
  HubServer hub(model_folder("tiny-qwen3-moe"));
  start(hub);
  hub.set_rule([](const HubServer::Request& request) -> HubServer::Answer {
    if (request.number == 4) return {.status = 429, .headers = {"Retry-After: 2"}, .body = {}};
    return {};
  });
  const std::string job = begin(call(hub.url() + "/m"));
  json now = status(job);
  bool was_shown = false;
  while (is_job_under_way(now)) {
    if (now["progress"]["waiting"] == "waiting for rate limit") was_shown = true;
    now = status(job);
  }
  EXPECT_EQ(now["state"], "completed") << now["error"];
  EXPECT_TRUE(was_shown);
}

TEST_F(Prepare, TheTokenStaysAtTheHubWhereverARedirectLeads) {
  HubServer cdn(model_folder("tiny-qwen3-moe"));
  HubServer hub(model_folder("tiny-qwen3-moe"));
  start(hub);
  hub.set_rule([&](const HubServer::Request& request) -> HubServer::Answer {
    if (!request.file.ends_with(".safetensors")) return {};
    return {.status = 302,
            .headers = {"Location: " + cdn.url() + "/signed/" + request.file},
            .body = {}};
  });
  const json done = run(call(hub.url() + "/m"));
  ASSERT_EQ(done["state"], "completed") << done["error"];
  ASSERT_FALSE(cdn.requests().empty());
  for (const auto& request : cdn.requests())
    EXPECT_FALSE(request.headers.contains("authorization"));
  EXPECT_EQ(hub.requests().at(0).headers.at("authorization"), "Bearer " + kToken);
  // A source that is not the hub gets none either.
  const std::size_t before = cdn.requests().size();
  ASSERT_EQ(run(call(cdn.url() + "/m"))["state"], "completed");
  for (std::size_t i = before; i < cdn.requests().size(); ++i)
    EXPECT_FALSE(cdn.requests()[i].headers.contains("authorization"));
}

TEST_F(Prepare, AProxyOfTheEnvironmentIsUsedForOtherMachinesAndNotForThisOne) {
  const HubServer proxy(model_folder("tiny-qwen3-moe"));
  const HubServer hub(model_folder("tiny-qwen3-moe"));
  start(hub, "plain_http = true\n", {{"http_proxy", proxy.url()}});
  json params = call("http://files.invalid/m");
  params["experts"] = {3};
  const json far = run(params);
  ASSERT_EQ(far["state"], "completed") << far["error"];
  ASSERT_FALSE(proxy.requests().empty());
  for (const auto& request : proxy.requests()) {
    EXPECT_TRUE(request.path.starts_with("http://files.invalid/m/")) << request.path;
    EXPECT_FALSE(request.headers.contains("authorization"));
  }
  const std::size_t before = proxy.requests().size();
  params["source"] = hub.url() + "/m";
  EXPECT_EQ(run(params)["state"], "completed");
  EXPECT_EQ(proxy.requests().size(), before);
  EXPECT_FALSE(hub.requests().empty());
}

TEST_F(Prepare, AFileThatChangesMidwayFailsTheJobByName) {
  const std::string copy = copy_of("tiny-qwen3-moe");
  std::size_t tensors = 0;  // outlives the hub, which counts in it
  HubServer hub(copy);
  start(hub);
  hub.set_rule([&](const HubServer::Request& request) -> HubServer::Answer {
    const bool is_tensor = request.file.ends_with(".safetensors") && request.first.value_or(0) > 8;
    if (is_tensor && ++tensors == 4) {
      const std::string path = copy + "/" + request.file;
      std::filesystem::copy_file(path, path + ".new");
      std::filesystem::rename(path + ".new", path);
    }
    return {};
  });
  const json done = run(call(hub.url() + "/m"));
  EXPECT_EQ(done["state"], "failed");
  EXPECT_THAT(done.value("error", ""), HasSubstr(".safetensors: was changed since the job began"));
}

TEST_F(Prepare, WhatIsNoCheckpointIsSaidToBeThat) {
  const std::string copy = copy_of("tiny-qwen3-moe");
  HubServer hub(copy);
  start(hub);
  for (const auto& entry : std::filesystem::directory_iterator(copy)) {
    if (entry.path().extension() == ".safetensors")
      std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
  }
  const json cut = run(call(hub.url() + "/m"));
  EXPECT_THAT(cut.value("error", ""), HasSubstr(".safetensors"));
  hub.set_rule([](const HubServer::Request& request) -> HubServer::Answer {
    if (!request.file.ends_with(".safetensors")) return {};
    return {.status = 200, .headers = {}, .body = "<!doctype html><title>Sign in</title>"};
  });
  const json page = run(call(hub.url() + "/m"));
  EXPECT_THAT(page.value("error", ""), HasSubstr("the file is an HTML page"));
  hub.set_rule([](const HubServer::Request&) -> HubServer::Answer {
    return {.status = 401, .headers = {}, .body = "no"};
  });
  const json refused = client().call("tenzro_moePrepareExperts", call(hub.url() + "/m"));
  EXPECT_THAT(refused["error"].value("message", ""), HasSubstr("HTTP status 401"));
  const json elsewhere = client().call("tenzro_moePrepareExperts", call("http://192.0.2.1/m"));
  EXPECT_THAT(elsewhere["error"].value("message", ""), HasSubstr("plain_http"));
}

TEST_F(Prepare, AKilledNodeGoesOnAndFetchesNoExpertTwice) {
  HubServer hub(model_folder("tiny-qwen3-moe"));
  start(hub);
  const json whole = run(call(model_folder("tiny-qwen3-moe"), "all"));
  hub.set_rule([](const HubServer::Request&) {
    HubServer::Answer answer;
    answer.is_slow = true;
    return answer;
  });
  const std::string job = begin(call(hub.url() + "/m", "all"));
  while (status(job)["completed_experts"].get<std::size_t>() < 5) {
  }
  node_->signal(SIGKILL);
  node_->wait();
  const std::size_t before = hub.requests().size();
  hub.set_rule({});
  start(hub);
  const json listed = client().result("tenzro_moePrepareList", json::array());
  EXPECT_EQ(listed["count"], 2);
  const json resumed = status(job);
  const std::size_t kept = resumed["completed_experts"].get<std::size_t>();
  EXPECT_GE(kept, 5U);
  const json done = wait_for(job);
  ASSERT_EQ(done["state"], "completed") << done["error"];
  EXPECT_EQ(uris_of(done), uris_of(whole));
  // Three tensors an expert, one request each: those of the kept ones were not asked for again.
  std::size_t large = 0;
  const auto requests = hub.requests();
  for (std::size_t i = before; i < requests.size(); ++i) {
    if (requests[i].last.value_or(0) - requests[i].first.value_or(0) + 1 == 256U * 256 * 2) ++large;
  }
  const std::size_t total = done["total_experts"].get<std::size_t>();
  EXPECT_LE(large, 3 * (total - 5));
}

TEST_F(Prepare, ACancelledJobStopsFetchingAndIsResumed) {
  HubServer hub(model_folder("tiny-qwen3-moe"));
  start(hub);
  hub.set_rule([](const HubServer::Request&) {
    HubServer::Answer answer;
    answer.is_slow = true;
    return answer;
  });
  const std::string job = begin(call(hub.url() + "/m"));
  while (status(job)["completed_experts"].get<std::size_t>() < 1) {
  }
  EXPECT_EQ(client().result("tenzro_moePrepareCancel", {{"job_id", job}})["cancelled"], true);
  EXPECT_EQ(status(job)["state"], "cancelled");
  hub.set_rule({});
  EXPECT_EQ(client().result("tenzro_moePrepareResume", {{"job_id", job}})["state"], "running");
  EXPECT_EQ(wait_for(job)["state"], "completed");
}

TEST_F(Prepare, LoadServesWhatWasPrepared) {
  const HubServer hub(model_folder("tiny-qwen3-moe"));
  start(hub);
  json params = call(hub.url() + "/m");
  params["load"] = true;
  ASSERT_EQ(run(params)["state"], "completed");
  const json forward = client().result("tenzro_moeForward", tiny_forward(3));
  EXPECT_EQ(bytes_of_base64(forward.value("outputs", "")).size(), 3U * kTinyWidth * sizeof(float));
}

TEST_F(Prepare, TheCommandFollowsAJobToItsEnd) {
  const HubServer hub(model_folder("tiny-deepseek-v3"));
  start(hub);
  const std::string line = std::string(TENZRO_CLI) + " --rpc http://" + node_->rpc() +
                           " moe prepare-experts --model-id tiny --layer all --experts 0,16"
                           " --quant q4_k_m --source " +
                           hub.url() + "/m --load --follow 2>&1";
  FILE* const pipe = ::popen(line.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
    text.push_back(static_cast<char>(c));
  EXPECT_EQ(::pclose(pipe), 0) << text;
  EXPECT_THAT(text, HasSubstr("[########################] "));
  EXPECT_THAT(text, HasSubstr("state   completed"));
  EXPECT_THAT(text, HasSubstr("tenzro://blob/"));
}

}  // namespace
}  // namespace tenzro::testing
