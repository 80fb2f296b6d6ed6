// What a hostile or broken client gets from the real process, and that the node serves on
// afterwards.
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/daemon_process.hpp"
#include "support/rpc_client.hpp"

namespace tenzro::testing {
namespace {

class HostileHttp : public ::testing::Test {
 protected:
  HostileHttp() : daemon_(folder_.path() + "/a"), client_(daemon_.rpc()) {}

  ~HostileHttp() override {
    const auto policy = client_.result("tenzro_moeReplicationPolicy", nlohmann::json::array());
    EXPECT_EQ(policy.value("min_replication", 0), 2);
  }

  TempFolder folder_;
  DaemonProcess daemon_;
  RpcClient client_;
};

const std::string kPolicy = R"({"jsonrpc":"2.0","id":1,"method":"tenzro_moeReplicationPolicy"})";

TEST_F(HostileHttp, WrongHostPathMethodAndTypeAreRefusedByTheirStatus) {
  const std::map<std::string, std::string> json{{"Content-Type", "application/json"}};
  EXPECT_EQ(client_
                .send("POST", "/", {{"Content-Type", "application/json"}, {"Host", "evil.example"}},
                      kPolicy)
                .status,
            403);
  EXPECT_EQ(client_.send("POST", "/", {{"Content-Type", "text/plain"}}, kPolicy).status, 415);
  EXPECT_EQ(client_.send("POST", "/", {}, kPolicy).status, 415);
  EXPECT_EQ(client_.send("POST", "/rpc", json, kPolicy).status, 404);
  const HttpAnswer get = client_.send("GET", "/", {}, "");
  EXPECT_EQ(get.status, 405);
  EXPECT_NE(get.headers.at("allow").find("POST"), std::string::npos);
  EXPECT_EQ(client_.send("OPTIONS", "/", {{"Origin", "http://evil.example"}}, "").status, 405);
}

TEST_F(HostileHttp, OversizeBodyIsRefusedBeforeItIsSent) {
  const std::string answer = client_.raw(
      "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
      "Content-Length: 99999999999\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer.substr(0, 100);
  EXPECT_NE(answer.find("\"error\""), std::string::npos);
}

TEST_F(HostileHttp, GarbageAndHalfRequestsEndTheirConnectionOnly) {
  EXPECT_TRUE(
      client_.raw("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls to a plain port\r\n\r\n")
          .starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(client_.raw("GET /\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(
      client_.raw("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(
      client_
          .raw("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + std::string(20'000, 'y') + "\r\n\r\n")
          .starts_with("HTTP/1.1 431 "));
}

struct BadBody {
  const char* body;
  int code;
};

TEST_F(HostileHttp, BadBodiesGetTheirJsonRpcCode) {
  const std::string deep = std::string(100'000, '[');
  const BadBody table[] = {
      {"{", -32700},
      {"", -32700},
      {"\xff\xfe", -32700},
      {deep.c_str(), -32700},
      {"[]", -32600},
      {"3", -32600},
      {R"({"jsonrpc":"1.0","id":1,"method":"x"})", -32600},
      {R"({"jsonrpc":"2.0","id":1.5,"method":"x"})", -32600},
      {R"({"jsonrpc":"2.0","id":1,"id":2,"method":"x"})", -32600},
      {R"({"jsonrpc":"2.0","id":1,"method":"x"})", -32601},
      {R"({"jsonrpc":"2.0","id":1,"method":"tenzro_moeShardMap","params":3})", -32602},
      {R"({"jsonrpc":"2.0","id":1,"method":"tenzro_moeShardMap","params":{}})", -32602}};
  for (const BadBody& bad : table) {
    const HttpAnswer answer = client_.post(bad.body);
    EXPECT_EQ(answer.status, 200) << std::string(bad.body).substr(0, 80);
    const auto reply = nlohmann::json::parse(answer.body, nullptr, false);
    ASSERT_TRUE(reply.is_object()) << answer.body;
    EXPECT_EQ(reply["error"]["code"], bad.code) << std::string(bad.body).substr(0, 80);
  }
}

TEST_F(HostileHttp, NotificationsAloneGetNoContent) {
  EXPECT_EQ(client_.post(R"({"jsonrpc":"2.0","method":"tenzro_moeReplicationPolicy"})").status,
            204);
  EXPECT_EQ(
      client_.post(R"([{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","method":"y"}])").status,
      204);
}

TEST_F(HostileHttp, PagesAnswerAndUnknownBlobsAreNotFound) {
  EXPECT_EQ(client_.send("GET", "/healthz", {}, "").status, 200);
  EXPECT_EQ(client_.send("GET", "/readyz", {}, "").status, 200);
  const HttpAnswer metrics = client_.send("GET", "/metrics", {}, "");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_NE(metrics.body.find("tenzro_resident_bytes"), std::string::npos);
  EXPECT_EQ(client_.send("GET", "/blob/" + std::string(64, 'a'), {}, "").status, 404);
  EXPECT_EQ(client_.send("GET", "/blob/../identity.key", {}, "").status, 404);
}

TEST_F(HostileHttp, MetricsPageAndItsDocumentNameTheSameMetrics) {
  EXPECT_EQ(client_.send("GET", "/nowhere", {}, "").status, 404);  // so that refusals are counted
  std::set<std::string> served;
  std::istringstream page(client_.send("GET", "/metrics", {}, "").body);
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("# TYPE ")) served.insert(line.substr(7, line.find(' ', 7) - 7));
  }
  std::set<std::string> documented;
  std::ifstream document(TENZRO_DOCS "/metrics.md");
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("| tenzro_")) documented.insert(line.substr(2, line.find(' ', 2) - 2));
  }
  EXPECT_EQ(served, documented);
}

TEST_F(HostileHttp, UploadedBlobComesBackWholeAndInRanges) {
  const std::string bytes(100'000, 'b');
  const HttpAnswer put = client_.send("PUT", "/blob", {}, bytes);
  ASSERT_EQ(put.status, 201) << put.body;
  const std::string uri = nlohmann::json::parse(put.body).value("tenzro_uri", "");
  const std::string path = "/blob/" + uri.substr(uri.rfind('/') + 1);
  EXPECT_EQ(client_.send("GET", path, {}, "").body, bytes);
  const HttpAnswer part = client_.send("GET", path, {{"Range", "bytes=99990-"}}, "");
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, bytes.substr(99'990));
  EXPECT_EQ(client_.send("GET", path, {{"Range", "bytes=100000-"}}, "").status, 416);
  EXPECT_EQ(
      bytes_of_base64(
          client_.result("tenzro_iroh_fetchBlob", {{{"tenzro_uri", uri}}}).value("bytes_b64", "")),
      bytes);
}

/// Goal: answers that nobody reads take about as much memory as the operator allows.
class UnreadAnswers : public ::testing::Test {
 protected:
  UnreadAnswers() {
    std::ofstream(folder_.path() + "/node.toml") << "[rpc]\nmax_answers_bytes = \"16MiB\"\n";
    daemon_.emplace(
        folder_.path() + "/a",
        DaemonProcess::Options{.arguments = {"--config", folder_.path() + "/node.toml"}});
  }

  [[nodiscard]] RpcClient client() const { return RpcClient(daemon_->rpc()); }

  /// A call whose answer takes four thirds of that many bytes.
  [[nodiscard]] std::string fetch_of(std::size_t bytes) const {
    const HttpAnswer put = client().send("PUT", "/blob", {}, std::string(bytes, 'b'));
    EXPECT_EQ(put.status, 201) << put.body;
    const std::string uri = nlohmann::json::parse(put.body).value("tenzro_uri", "");
    return nlohmann::json{{"jsonrpc", "2.0"},
                          {"id", 1},
                          {"method", "tenzro_iroh_fetchBlob"},
                          {"params", {{{"tenzro_uri", uri}}}}}
        .dump();
  }

  [[nodiscard]] int ask_without_reading(const std::string& body) const {
    return client().ask_without_reading(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  TempFolder folder_;
  std::optional<DaemonProcess> daemon_;
};

TEST_F(UnreadAnswers, MakeOthersBusyUntilTheyAreRead) {
  const std::string call = fetch_of(9'000'000);
  const int unread = ask_without_reading(call);
  ASSERT_GE(unread, 0);
  const auto refused = nlohmann::json::parse(client().post(call).body);
  EXPECT_EQ(refused["error"]["code"], -32000) << refused.dump().substr(0, 300);
  EXPECT_NE(refused.dump().find("busy: the node holds too many answers"), std::string::npos)
      << refused.dump().substr(0, 300);
  // Small answers go through all the while.
  const auto policy = nlohmann::json::parse(client().post(kPolicy).body);
  EXPECT_EQ(policy["result"]["min_replication"], 2);
  EXPECT_TRUE(RpcClient::read_rest(unread).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(nlohmann::json::parse(client().post(call).body).contains("result"));
}

TEST_F(UnreadAnswers, WhoLeavesFreesItsOwn) {
  const std::string call = fetch_of(9'000'000);
  for (int i = 0; i < 3; ++i) {
    const int unread = ask_without_reading(call);
    ASSERT_GE(unread, 0);
    ::close(unread);
    // Closed with bytes unread, it is reset; the node hears of that before the next request.
    EXPECT_TRUE(nlohmann::json::parse(client().post(call).body).contains("result")) << i;
  }
}

TEST_F(UnreadAnswers, OfTheSchemaCountToo) {
  const int unread = ask_without_reading(fetch_of(9'000'000));
  ASSERT_GE(unread, 0);
  std::string batch;
  for (int i = 0; i < 99; ++i) batch += R"({"jsonrpc":"2.0","id":1,"method":"rpc.discover"},)";
  batch = "[" + batch + kPolicy + "]";
  const HttpAnswer refused = client().post(batch);
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("busy: the node holds too many answers"), std::string::npos);
  EXPECT_TRUE(RpcClient::read_rest(unread).starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(client().post(batch).status, 200);
}

TEST_F(UnreadAnswers, IdsThatComeBackCountToo) {
  const int unread = ask_without_reading(fetch_of(9'000'000));
  ASSERT_GE(unread, 0);
  const std::string call = R"({"jsonrpc":"2.0","method":"tenzro_moeReplicationPolicy","id":")" +
                           std::string(6'000'000, 'i') + "\"}";
  EXPECT_EQ(client().post(call).status, 503);
  EXPECT_TRUE(RpcClient::read_rest(unread).starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(client().post(call).status, 200);
}

TEST_F(UnreadAnswers, LargerOneThanAllMayTakeIsRefusedForGood) {
  const auto refused = nlohmann::json::parse(client().post(fetch_of(13'000'000)).body);
  EXPECT_NE(refused.dump().find("may take 16777216: ask for less"), std::string::npos)
      << refused.dump().substr(0, 300);
}

}  // namespace
}  // namespace tenzro::testing
