// tenzro/moe between a real tenzrod, or our own endpoint, and a stock foreign endpoint (iroh).
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/net/endpoint.hpp"

#include "child.hpp"
#include "our_side.hpp"
#include "support/mesh_processes.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

using interop::Child;
using nlohmann::json;

constexpr std::chrono::seconds kPatience{40};

json execute_params(int expert) {
  json params = tiny_forward(kRows);
  params["expert"] = expert;
  params["token_indices"] = {0, 1, 2};
  return params;
}

/// As a foreign client writes it.
json foreign_request(const std::string& method, const json& params) {
  return {{"jsonrpc", "2.0"}, {"id", 1},           {"method", method},
          {"params", params}, {"api_key", "none"}, {"service_key", nullptr}};
}

class MoeInterop : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!interop::has_packages()) {
      GTEST_SKIP() << "no npm packages in tests/interop: npm install there";
    }
  }

  /// A node with the tiny layer, and a stock endpoint that calls it.
  void start(const std::string& execute) {
    node_.extra_config = "[holder]\nexecute = \"" + execute + "\"\n";
    node_.start("");
    load_tiny_layer(node_.client(), prepare_tiny_layer(node_.client()));
    const std::string entry = node_.entry();
    child_ = std::make_unique<Child>(
        "moe_client.mjs", std::vector{node_.endpoint_id(), entry.substr(entry.rfind(':') + 1)});
    ASSERT_TRUE(child_->line_within(kPatience));
  }

  /// The stock endpoint's answers to calls that are under way together.
  [[nodiscard]] json ask(const std::string& connection, const json& calls) {
    child_->send(json{{"connection", connection}, {"calls", calls}}.dump());
    const json answers =
        json::parse(child_->line_within(kPatience).value_or("nothing"), nullptr, false);
    EXPECT_EQ(answers.size(), calls.size()) << answers.dump().substr(0, 300);
    return answers;
  }

  [[nodiscard]] json ask_one(const std::string& text) {
    const json answer = ask("kept", {{{"text", text}}}).at(0);
    EXPECT_TRUE(answer.contains("text")) << answer.dump();
    return json::parse(answer.value("text", ""), nullptr, false);
  }

  [[nodiscard]] json ask_for(const std::string& method, const json& params) {
    return ask_one(foreign_request(method, params).dump());
  }

  void expect_error(const json& reply, int code, const std::string& start) {
    ASSERT_TRUE(reply.contains("error")) << reply.dump().substr(0, 300);
    EXPECT_EQ(reply["error"]["code"], code) << reply.dump();
    const std::string message = reply["error"].value("message", "");
    EXPECT_TRUE(message.starts_with(start)) << message;
  }

  [[nodiscard]] EndpointId node_key() const {
    return hash_from_hex(node_.endpoint_id()).value_or(EndpointId{});
  }

  TempFolder folder_;
  MeshNode node_{folder_.path(), "node"};
  std::unique_ptr<Child> child_;
  OurSide ours_;
};

TEST_F(MoeInterop, StatusIsTheObjectThatHttpGives) {
  start("mesh");
  const json reply = ask_for("moe/status", json::object());
  EXPECT_EQ(reply["id"], 1);
  EXPECT_EQ(reply["jsonrpc"], "2.0");
  EXPECT_EQ(reply["result"], node_.client().result("tenzro_moeExpertStatus", json::object()));
  EXPECT_EQ(reply["result"]["experts"].size(), static_cast<std::size_t>(kTinyExperts));
}

TEST_F(MoeInterop, ExecuteGivesTheOutputsAndTheReceiptOfHttp) {
  start("open");
  const json reply = ask_for("moe/execute", execute_params(7));
  EXPECT_EQ(reply["result"], node_.client().result("tenzro_moeExecute", execute_params(7)));
  const std::string text = reply.dump();
  const auto verified =
      ours_.verified(ours_.call(7, node_key(), receipts::CarrierKind::dense),
                     BufferRef::copy_of(frame_of(static_cast<std::uint32_t>(text.size()), text)));
  ASSERT_TRUE(verified) << verified.error().message();
  EXPECT_EQ(*verified, reply["result"].value("outputs", ""));
}

TEST_F(MoeInterop, OurOwnCallsAreUnderstoodFromAForeignEndpoint) {
  start("open");
  for (const auto carrier : {receipts::CarrierKind::dense, receipts::CarrierKind::q8_0}) {
    const auto call = ours_.call(2, node_key(), carrier);
    std::string frame;
    for (const BufferRef& part : ours_.encode(call).request) frame += part.text();
    const json answer = ask("new", {{{"bytes", base64_of(frame)}}}).at(0);
    const std::string text = answer.value("text", "");
    const auto verified = ours_.verified(
        call, BufferRef::copy_of(frame_of(static_cast<std::uint32_t>(text.size()), text)));
    ASSERT_TRUE(verified) << verified.error().message();
    EXPECT_EQ(bytes_of_base64(*verified).size(), kRows * kTinyWidth * sizeof(float));
  }
}

TEST_F(MoeInterop, StreamsTogetherAndConnectionsTogetherAnswerAlike) {
  start("open");
  json calls;
  json expected;
  for (int expert = 0; expert < kTinyExperts; ++expert) {
    calls.push_back({{"text", foreign_request("moe/execute", execute_params(expert)).dump()}});
    expected.push_back(node_.client().result("tenzro_moeExecute", execute_params(expert)));
  }
  for (const char* connection : {"kept", "new"}) {
    const json answers = ask(connection, calls);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_TRUE(answers[i].contains("text")) << connection << i << answers[i].dump();
      EXPECT_EQ(json::parse(answers[i].value("text", ""))["result"], expected[i]) << connection;
    }
  }
}

TEST_F(MoeInterop, WrongRequestsHaveTheirCodes) {
  start("open");
  expect_error(ask_for("moe/nonsense", json::object()), -32601, "unknown method: moe/nonsense");
  expect_error(ask_for("tenzro_moeExecute", execute_params(7)), -32601, "unknown method: ");
  json params = execute_params(7);
  params.erase("d_model");
  expect_error(ask_for("moe/execute", params), -32602, "invalid moe/execute params: ");
  params = execute_params(7);
  params["token_indices"] = {0};
  expect_error(ask_for("moe/execute", params), -32602, "invalid moe/execute params: ");
  expect_error(ask_for("moe/execute", execute_params(99)), -32004, "");
  const json unparsable = ask_one("{\"jsonrpc\":");
  expect_error(unparsable, -32700, "");
  EXPECT_TRUE(unparsable["id"].is_null());
}

TEST_F(MoeInterop, StrangerMayAskForTheStatusAndExecutesNothing) {
  start("mesh");
  expect_error(ask_for("moe/execute", execute_params(7)), -32001,
               "moe/execute is gated; provide a valid inference api_key or service_key");
  EXPECT_TRUE(ask_for("moe/status", json::object()).contains("result"));
}

TEST_F(MoeInterop, WhatIsNoFrameEndsItsStreamAlone) {
  start("open");
  const std::string large(wire::kMoeFrameBytesMax + 1, ' ');
  const json status{{"text", foreign_request("moe/status", json::object()).dump()}};
  for (const std::string& bytes : {frame_of(wire::kMoeFrameBytesMax + 1, large), frame_of(10, "{}"),
                                   frame_of(2, "{}{}"), std::string("no"), std::string()}) {
    const json answers = ask("kept", {{{"bytes", base64_of(bytes)}}, status});
    EXPECT_TRUE(answers[0].contains("error")) << bytes.size() << answers[0].dump();
    EXPECT_TRUE(answers[1].contains("text")) << bytes.size() << answers[1].dump();
  }
  EXPECT_GE(metric_of(node_.client(), "tenzro_peer_refusals_total{reason=\"malformed\"}"), 4);
}

/// Our endpoint calls a stock one, behind which stands a node.
class MoeInteropOut : public MoeInterop, public net::Handler {
 protected:
  void on_reply(PeerCallId id, Result<net::Reply> reply) override {
    replies_.emplace(id, std::move(reply));
  }

  void on_request(net::Request request) override { endpoint_->refuse(request.id); }

  void on_request_cancelled(PeerRequestId) override {}

  void start_server() {
    node_.start("");
    load_tiny_layer(node_.client(), prepare_tiny_layer(node_.client()));
    child_ = std::make_unique<Child>("moe_server.mjs", std::vector{node_.rpc()});
    target_.id = hash_from_hex(child_->line_within(kPatience).value_or(""));
    target_.addresses = {child_->line_within(kPatience).value_or("")};
    ASSERT_TRUE(target_.id);
    auto made = net::Endpoint::listen(loop_, ours_.key, {.listen = "127.0.0.1:0"}, *this);
    ASSERT_TRUE(made) << made.error().message();
    endpoint_ = std::move(*made);
  }

  void expect_replies(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (replies_.size() < count && std::chrono::steady_clock::now() < deadline) {
      loop_.context().run_one_for(std::chrono::milliseconds(20));
    }
    ASSERT_EQ(replies_.size(), count);
    for (const auto& [id, reply] : replies_) {
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_EQ(reply->from, *target_.id);
    }
  }

  exec::Loop loop_;
  std::unique_ptr<net::Endpoint> endpoint_;
  net::Target target_;
  std::map<PeerCallId, Result<net::Reply>> replies_;
};

TEST_F(MoeInteropOut, EveryExpertIsExecutedAndItsReceiptVerifies) {
  start_server();
  for (int expert = 0; expert < kTinyExperts; ++expert) {
    const auto call = ours_.call(expert, node_key(), receipts::CarrierKind::dense);
    endpoint_->call(PeerCallId{static_cast<std::uint64_t>(expert)}, target_, wire::Protocol::moe,
                    ours_.encode(call).request);
  }
  expect_replies(kTinyExperts);
  EXPECT_EQ(endpoint_->connections(), 1U);
  for (int expert = 0; expert < kTinyExperts; ++expert) {
    const auto call = ours_.call(expert, node_key(), receipts::CarrierKind::dense);
    const auto& reply = replies_.at(PeerCallId{static_cast<std::uint64_t>(expert)});
    const auto verified = ours_.verified(call, reply->bytes);
    ASSERT_TRUE(verified) << verified.error().message();
    EXPECT_EQ(
        *verified,
        node_.client().result("tenzro_moeExecute", execute_params(expert)).value("outputs", ""));
  }
}

TEST_F(MoeInteropOut, AnswerIsHeldAgainstWhatWasAsked) {
  start_server();
  const auto missing = ours_.call(99, node_key(), receipts::CarrierKind::dense);
  const auto right = ours_.call(3, node_key(), receipts::CarrierKind::q8_0);
  endpoint_->call(PeerCallId{1}, target_, wire::Protocol::moe, ours_.encode(missing).request);
  endpoint_->call(PeerCallId{2}, target_, wire::Protocol::moe, ours_.encode(right).request);
  expect_replies(2);
  const auto refused = ours_.verified(missing, replies_.at(PeerCallId{1})->bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::runtime);
  const BufferRef& reply = replies_.at(PeerCallId{2})->bytes;
  EXPECT_TRUE(ours_.verified(right, reply));
  for (const auto& other : {ours_.call(4, node_key(), receipts::CarrierKind::q8_0),
                            ours_.call(3, node_key(), receipts::CarrierKind::dense),
                            ours_.call(3, *target_.id, receipts::CarrierKind::q8_0)}) {
    EXPECT_FALSE(ours_.verified(other, reply));
  }
}

}  // namespace
}  // namespace tenzro::testing
