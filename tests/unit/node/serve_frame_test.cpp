// Frames of tenzro/moe as foreign endpoints send them.
#include <nlohmann/json.hpp>

#include "tenzro/wire/moe_frame.hpp"

#include "peer_world.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;
using wire::Protocol;

class Frames : public ::testing::Test {
 protected:
  Frames() {
    peers.call.transport = work::Transport::moe;
    peers.call.batches.pop_back();
  }

  [[nodiscard]] json ask(const std::string& body) {
    const BufferRef reply =
        peers.ask(Protocol::moe, joined(*wire::make_moe_frame(BufferRef::copy_of(body))));
    const auto text = wire::moe_frame_body(reply);
    EXPECT_TRUE(text) << "no frame";
    return text ? json::parse(*text) : json();
  }

  /// A good moe/execute for one row.
  [[nodiscard]] json execute() {
    const auto text = wire::moe_frame_body(frame_ = peers.request());
    return json::parse(*text);
  }

  [[nodiscard]] static std::string error_of(const json& reply) {
    if (!reply.contains("error")) return "(no error)";
    return std::to_string(reply["error"]["code"].get<int>()) + ' ' +
           reply["error"]["message"].get<std::string>();
  }

  PeerWorld peers;
  BufferRef frame_;
};

TEST_F(Frames, ExecuteIsServedWithAReceipt) {
  const auto verified = peers.verify(peers.ask(Protocol::moe, peers.request()));
  ASSERT_TRUE(verified) << verified.error().message();
  EXPECT_EQ(verified->outputs.front().rows, peers.call.batches.front().rows);
  EXPECT_EQ(peers.totals().peer_requests_moe, 1U);
  EXPECT_EQ(peers.totals().peer_requests_served, 1U);
  EXPECT_EQ(peers.world.node().peer_requests_in_progress(), 0U);
}

TEST_F(Frames, NonceAsksForAReceiptOfVersionTwo) {
  json asked = execute();
  EXPECT_FALSE(ask(asked.dump())["result"].contains("receipt2"));
  asked["params"]["nonce"] = "000102030405060708090a0b0c0d0e0f";
  const json result = ask(asked.dump())["result"];
  ASSERT_TRUE(result.contains("receipt2"));
  EXPECT_EQ(result["receipt2"]["input_hash"], result["receipt"]["input_hash"]);
  EXPECT_EQ(result["receipt2"]["commitment"], result["receipt"]["commitment"]);
  EXPECT_EQ(result["receipt2"]["rows_hash"].size(), 32U);
  EXPECT_EQ(result["receipt2"]["blob_hash"], json(std::vector<int>(32, 0))) << "loaded inline";
  EXPECT_EQ(result["receipt2"]["profile"], 1);
  EXPECT_EQ(result["receipt2"]["up_type"], 0);
  asked["params"]["nonce"] = "0001";
  EXPECT_EQ(error_of(ask(asked.dump())),
            "-32602 invalid moe/execute params: nonce: must be 32 lower-case hex digits");
}

TEST_F(Frames, StatusNeedsNoCredential) {
  PeerWorld closed(node::ExecuteRule::mesh);
  const BufferRef reply = closed.ask(
      Protocol::moe, joined(*wire::make_moe_frame(
                         BufferRef::copy_of(R"({"jsonrpc":"2.0","id":1,"method":"moe/status"})"))));
  const json status = json::parse(*wire::moe_frame_body(reply));
  EXPECT_EQ(status["id"], 1);
  EXPECT_EQ(status["result"]["experts"].size(), 3U);
}

TEST_F(Frames, StrangersExecuteIsGated) {
  PeerWorld closed(node::ExecuteRule::mesh);
  const json reply =
      json::parse(*wire::moe_frame_body(frame_ = closed.ask(Protocol::moe, peers.request())));
  EXPECT_THAT(error_of(reply),
              ::testing::StartsWith(
                  "-32001 moe/execute is gated; provide a valid inference api_key or service_key"));
}

TEST_F(Frames, ErrorsHaveTheCodesOfTheProtocol) {
  EXPECT_THAT(error_of(ask("{")), ::testing::StartsWith("-32700 "));
  EXPECT_TRUE(ask("{")["id"].is_null());
  EXPECT_EQ(error_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"moe/nonsense"})")),
            "-32601 unknown method: moe/nonsense");
  EXPECT_EQ(error_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"tenzro_moeExpertStatus"})")),
            "-32601 unknown method: tenzro_moeExpertStatus");
  EXPECT_EQ(error_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"moe/execute","params":{}})")),
            "-32602 invalid moe/execute params: missing model_id");
  json asked = execute();
  asked["params"]["expert"] = 9;
  EXPECT_EQ(error_of(ask(asked.dump())), "-32004 expert m l4/e9 is not loaded on this host");
  EXPECT_THAT(error_of(ask("[]")), ::testing::StartsWith("-32600 "));
}

TEST_F(Frames, RequestWithoutAnIdIsAnsweredToo) {
  const json reply = ask(R"({"jsonrpc":"2.0","method":"moe/status"})");
  EXPECT_TRUE(reply["id"].is_null());
  EXPECT_TRUE(reply.contains("result"));
}

TEST_F(Frames, ReplyThatWouldNotFitIsRefusedBeforeTheWork) {
  const std::size_t rows = 16'000;  // 34 / 32 bytes a value there, 4 back
  json asked = execute();
  asked["params"].erase("hidden_states");
  std::vector<std::uint8_t> blocks(rows * 2 * 34, 0);
  asked["params"]["hidden_q8"] = base64_encode(blocks);
  asked["params"]["token_indices"] = std::vector<std::uint32_t>(rows, 1);
  EXPECT_THAT(
      error_of(ask(asked.dump())),
      ::testing::StartsWith("-32602 invalid moe/execute params: token_indices: the response"));
  EXPECT_EQ(peers.totals().token_expert_pairs, 0U);
}

TEST_F(Frames, WhatIsNoFrameEndsTheStream) {
  const BufferRef good = peers.request();
  for (const BufferRef& bytes :
       {BufferRef{}, BufferRef::copy_of("abc"), good.slice(0, good.size() - 1),
        joined({good, BufferRef::copy_of("x")})}) {
    peers.world.begin_peer(Protocol::moe, peers.router, bytes);
    peers.world.settle();
    const auto actions = peers.world.take_peer_actions();
    ASSERT_EQ(actions.size(), 1U);
    EXPECT_TRUE(std::holds_alternative<node::RefuseRequest>(actions.front()));
  }
  EXPECT_EQ(peers.totals().peer_refused_malformed, 4U);
}

TEST_F(Frames, PeerThatLeavesAtAnyStepLeavesNothing) {
  for (std::size_t steps = 0; steps < 5; ++steps) {
    const PeerRequestId id = peers.world.begin_peer(Protocol::moe, peers.router, peers.request());
    peers.world.work(steps);
    peers.world.cancel_peer(id);
    EXPECT_EQ(peers.world.node().peer_requests_in_progress(), 0U);
    peers.world.settle();
    static_cast<void>(peers.world.take_peer_actions());
  }
  EXPECT_TRUE(peers.verify(peers.ask(Protocol::moe, peers.request())));
}

TEST_F(Frames, LateExecutionEndsInAnErrorFrame) {
  const PeerRequestId id = peers.world.begin_peer(Protocol::moe, peers.router, peers.request());
  peers.world.work();  // read; the expert waits to be run
  peers.world.advance(std::chrono::seconds(31));
  peers.world.settle();
  const json reply = json::parse(*wire::moe_frame_body(frame_ = peers.reply_to(id)));
  EXPECT_EQ(error_of(reply), "-32000 moe execute: deadline exceeded");
}

}  // namespace
}  // namespace tenzro::testing
