// Tokens with scopes on a real node: who may read, run and change.
#include <fstream>
#include <memory>

#include <gtest/gtest.h>

#include "support/daemon_process.hpp"
#include "support/rpc_client.hpp"

namespace tenzro::testing {
namespace {

// SHA-256 of "reader", "boss" and "runner".
constexpr const char* kTokens =
    "# name scopes hash\n"
    "alice read 3d0941964aa3ebdcb00ccef58b1bb399f9f898465e9886d5aec7f31090a0fb30\n"
    "bob read,execute,admin a5e7c002443743c5836758c7d1cd8ddefd9fcf2061daa0efaac683fb99966057\n"
    "carol execute 527aa9f431539da8e151d5434d1d5e611d973f601d8e970790882624554146b0\n";

class Tokens : public ::testing::Test {
 protected:
  Tokens() {
    std::ofstream(folder_.path() + "/tokens") << kTokens;
    std::ofstream(folder_.path() + "/node.toml")
        << "[rpc]\ntokens_file = \"" << folder_.path() << "/tokens\"\n";
    daemon_ = std::make_unique<DaemonProcess>(
        folder_.path() + "/a",
        DaemonProcess::Options{.arguments = {"--config", folder_.path() + "/node.toml"}});
  }

  /// The error code of the call, or 0.
  int code_of(const std::string& token, const std::string& method) {
    std::map<std::string, std::string> headers{{"Content-Type", "application/json"}};
    if (!token.empty()) headers["Authorization"] = "Bearer " + token;
    const std::string body = R"({"jsonrpc":"2.0","id":1,"method":")" + method +
                             R"(","params":{"model_id":"m","layer":0,"job_id":"x"}})";
    const HttpAnswer answer = RpcClient(daemon_->rpc()).send("POST", "/", headers, body);
    EXPECT_EQ(answer.status, 200);
    const auto reply = nlohmann::json::parse(answer.body, nullptr, false);
    return reply.contains("error") ? reply["error"].value("code", 0) : 0;
  }

  HttpAnswer page(const std::string& path, const std::string& token) {
    std::map<std::string, std::string> headers;
    if (!token.empty()) headers["Authorization"] = "Bearer " + token;
    return RpcClient(daemon_->rpc()).send("GET", path, headers, "");
  }

  int page_status(const std::string& path, const std::string& token) {
    return page(path, token).status;
  }

  TempFolder folder_;
  std::unique_ptr<DaemonProcess> daemon_;
};

TEST_F(Tokens, CallsNeedTheScopeOfTheirMethod) {
  ASSERT_TRUE(daemon_->is_ready()) << daemon_->log();
  EXPECT_EQ(code_of("", "tenzro_moeExpertStatus"), -32001);
  EXPECT_EQ(code_of("guess", "tenzro_moeExpertStatus"), -32001);
  EXPECT_EQ(code_of("reader", "tenzro_moeExpertStatus"), 0);
  EXPECT_EQ(code_of("reader", "tenzro_moeGateUnload"), -32001);
  EXPECT_EQ(code_of("reader", "tenzro_moeRoute"), -32001);
  EXPECT_EQ(code_of("boss", "tenzro_moeGateUnload"), 0);
  EXPECT_EQ(code_of("boss", "tenzro_moeExpertStatus"), 0);
}

TEST_F(Tokens, HealthIsOpenAndMetricsAreNot) {
  ASSERT_TRUE(daemon_->is_ready()) << daemon_->log();
  EXPECT_EQ(page_status("/healthz", ""), 200);
  EXPECT_EQ(page_status("/readyz", ""), 200);
  EXPECT_NE(page_status("/metrics", ""), 200);
  EXPECT_EQ(page_status("/metrics", "reader"), 200);
}

TEST_F(Tokens, BlobsAreRefusedAsPagesAre) {
  ASSERT_TRUE(daemon_->is_ready()) << daemon_->log();
  for (const auto& path : {std::string("/metrics"), "/blob/" + std::string(64, 'a')}) {
    for (const char* token : {"", "guess"}) {
      const HttpAnswer answer = page(path, token);
      EXPECT_EQ(answer.status, 401) << path;
      EXPECT_EQ(answer.headers.at("www-authenticate"), "Bearer") << path;
      EXPECT_NE(answer.body.find("-32001"), std::string::npos) << answer.body;
    }
    EXPECT_EQ(page_status(path, "runner"), 403) << path;
  }
  EXPECT_EQ(page_status("/blob/" + std::string(64, 'a'), "reader"), 404);
}

}  // namespace
}  // namespace tenzro::testing
