#pragma once
/// \file
/// A node that serves peers, and one router that asks it.
#include <cstdlib>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/kernels/cpu.hpp"
#include "tenzro/work/bodies.hpp"

#include "support/node_world.hpp"
#include "support/random_expert.hpp"

namespace tenzro::testing {

inline constexpr std::uint32_t kPeerWidth = 64;

class PeerWorld {
 public:
  explicit PeerWorld(node::ExecuteRule rule = node::ExecuteRule::open,
                     tensor::WeightType type = tensor::WeightType::f32, NodeWorld::Setup setup = {})
      : world(with_rule(std::move(setup), rule)) {
    for (ExpertIndex e = 0; e < 3; ++e) {
      expect_answer<rpc::ExpertRow>(
          world.call(rpc::ExpertLoadCall{.key = {"m", 4, e},
                                         .has_inline = true,
                                         .blob = random_expert(e + 1, kPeerWidth, 32, type)}));
    }
    Prng prng(5);
    call.layer = {"m", 4};
    call.width = kPeerWidth;
    call.input = random_rows(prng, 6, kPeerWidth);
    call.batches = {{0, {0, 1, 5}, {}}, {2, {1, 2}, {}}};
    call.nonce = {4, 2};
    call.router = router;
    call.holder = crypto::KeyPair::from_seed(crypto::Seed{1}).public_key();
    call.provider = crypto::KeyPair::from_seed(crypto::Seed{1}).address();
  }

  [[nodiscard]] std::shared_ptr<const work::RemoteCall> shared() const {
    return std::make_shared<const work::RemoteCall>(call);
  }

  [[nodiscard]] BufferRef request(Duration budget = std::chrono::seconds(5)) {
    const auto encoded = work::encode_call({shared(), budget}, context());
    EXPECT_TRUE(encoded) << encoded.error().message();
    return encoded ? joined(encoded->request) : BufferRef{};
  }

  /// The only action since the last look: a reply to that request. Empty: there was none.
  [[nodiscard]] BufferRef reply_to(PeerRequestId id) {
    const std::vector<node::Action> actions = world.take_peer_actions();
    if (actions.empty()) return {};
    EXPECT_EQ(actions.size(), 1U);
    const auto* reply = std::get_if<node::SendReply>(&actions.front());
    EXPECT_NE(reply, nullptr);
    if (reply == nullptr) return {};
    EXPECT_EQ(reply->id, id);
    return joined(reply->reply);
  }

  [[nodiscard]] BufferRef ask(wire::Protocol protocol, BufferRef message) {
    const PeerRequestId id = world.begin_peer(protocol, router, std::move(message));
    world.settle();
    return reply_to(id);
  }

  [[nodiscard]] Result<work::VerifiedReply> verify(const BufferRef& reply) {
    return work::verify_reply({shared(), reply, {}}, context());
  }

  /// What the router learns from asking with its call.
  [[nodiscard]] Result<work::VerifiedReply> ask_exec() {
    return verify(ask(wire::Protocol::exec, request()));
  }

  [[nodiscard]] Error refusal(const BufferRef& reply) {
    const auto verified = verify(reply);
    return verified ? Error{ErrorCode::internal, "", "(accepted)"} : verified.error();
  }

  [[nodiscard]] const node::Totals& totals() { return world.node().totals(); }

  [[nodiscard]] work::JobContext context() { return {*backend_, executor_, key_}; }

  EndpointId router = crypto::KeyPair::from_seed(crypto::Seed{9}).public_key();
  NodeWorld world;
  work::RemoteCall call;

 private:
  static NodeWorld::Setup with_rule(NodeWorld::Setup setup, node::ExecuteRule rule) {
    setup.options.execute = rule;
    return setup;
  }

  static std::unique_ptr<compute::Backend> make_backend() {
    auto backend = kernels::make_cpu_backend({});
    if (!backend) std::abort();
    return std::move(*backend);
  }

  std::unique_ptr<compute::Backend> backend_ = make_backend();
  compute::SerialExecutor executor_;
  crypto::KeyPair key_ = crypto::KeyPair::from_seed(crypto::Seed{9});
};

}  // namespace tenzro::testing
