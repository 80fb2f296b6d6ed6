// Two nodes and the calls between them: what one holds the other lists.
#include <deque>

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/crypto/signing.hpp"
#include "tenzro/node/node.hpp"

namespace tenzro::node {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kWall = 1'800'000'000'000;

struct Member {
  Member(std::uint8_t number, Options options, const std::string& name)
      : key(crypto::KeyPair::from_seed(crypto::Seed{number})),
        signing(key),
        catalog(catalog::Catalog::builtin().value()),
        prng(number),
        node(options,
             {.version = "test",
              .name = name.empty() ? "node-" + std::to_string(number) : name,
              .endpoint_id = key.public_key(),
              .provider = key.address()},
             catalog, prng),
        address("10.0.0." + std::to_string(number) + ":9001") {}

  crypto::KeyPair key;
  crypto::KeySigning signing;
  catalog::Catalog catalog;
  Prng prng;
  Node node;
  std::string address;
  std::vector<Reply> replies;
};

/// Delivers calls at once; time moves in steps.
class Pair {
 public:
  /// One node for each layer, which holds one expert of it; the last one's is of model `last`.
  explicit Pair(const std::vector<LayerIndex>& layers = {0, 1}, const ModelId& last = "m",
                const std::string& name = "")
      : is_dead_(layers.size()) {
    Options later;
    later.bootstrap = {"10.0.0.1:9001"};
    for (std::size_t i = 0; i < layers.size(); ++i) {
      members_.push_back(std::make_unique<Member>(static_cast<std::uint8_t>(i + 1),
                                                  i == 0 ? Options{} : later, name));
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      Outbox out;
      Member& member = *members_[i];
      const ModelId model = i + 1 == layers.size() ? last : "m";
      work::HoldingRow row{.layer = {model, layers[i]}, .expert = 7};
      row.hash.fill(static_cast<std::uint8_t>(i + 1));
      row.source_uri = "tenzro://blob/" + to_hex(row.hash);
      row.facts.up_type = tensor::WeightType::q8_0;
      row.facts.down_type = tensor::WeightType::q8_0;
      member.node.on_index(now_, {row}, out);
      member.node.set_addresses("", "http://" + member.address, member.address, {member.address});
      member.node.join_mesh(now_, kWall, member.signing, out);
      take(i, out);
    }
  }

  Node& node(std::size_t i) { return members_[i]->node; }

  const ProviderAddress address(std::size_t i) { return members_[i]->key.address(); }

  void run_for(Duration time) {
    for (const Instant end = now_ + time; now_ < end; now_ = now_ + milliseconds(50)) {
      for (std::size_t i = 0; i < members_.size(); ++i) {
        if (is_dead_[i]) continue;
        Outbox out;
        const auto deadline = node(i).next_deadline();
        if (deadline && *deadline <= now_) node(i).on_tick(now_, out);
        take(i, out);
      }
    }
  }

  void kill(std::size_t i) { is_dead_[i] = true; }

  void leave(std::size_t i) {
    Outbox out;
    node(i).leave(now_, out);
    take(i, out);
  }

  template <typename T>
  T ask(std::size_t i, rpc::Call call) {
    Outbox out;
    node(i).on_call(now_, RequestId{++last_request_}, std::move(call), out);
    take(i, out);
    return std::get<T>(members_[i]->replies.back().answer.value());
  }

 private:
  void take(std::size_t from, Outbox& actions) {
    for (Action& action : actions) {
      if (auto* reply = std::get_if<Reply>(&action)) {
        members_[from]->replies.push_back(std::move(*reply));
      } else if (auto* call = std::get_if<SendCall>(&action)) {
        deliver(from, *call);
      }
    }
  }

  void deliver(std::size_t from, const SendCall& call) {
    for (std::size_t to = 0; to < members_.size(); ++to) {
      if (members_[to]->address != call.target.addresses.front() || is_dead_[to]) continue;
      Outbox answers;
      node(to).on_peer_request(now_,
                               {.id = PeerRequestId{++last_request_},
                                .from = members_[from]->key.public_key(),
                                .protocol = call.protocol,
                                .bytes = call.request.front()},
                               answers);
      for (Action& action : answers) {
        auto* reply = std::get_if<SendReply>(&action);
        if (reply == nullptr) continue;
        Outbox out;
        node(from).on_peer_reply(
            now_, call.id, work::CallReply{members_[to]->key.public_key(), reply->reply.front()},
            out);
        take(from, out);
      }
    }
  }

  Instant now_{seconds(1)};
  std::uint64_t last_request_ = 0;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<bool> is_dead_;
};

TEST(NodeInAMesh, ListsWhatTheOtherIsAndHolds) {
  Pair pair;
  pair.run_for(seconds(5));
  for (const std::size_t i : {0U, 1U}) {
    const auto list = pair.ask<rpc::ListProvidersAnswer>(i, rpc::ListProvidersCall{});
    ASSERT_EQ(list.providers.size(), 2U);
    for (const rpc::ProviderRow& row : list.providers) {
      const bool is_first = row.address == pair.address(0);
      EXPECT_EQ(row.name, is_first ? "node-1" : "node-2");
      EXPECT_EQ(row.is_self, is_first == (i == 0));
      EXPECT_EQ(row.rpc_endpoint, is_first ? "http://10.0.0.1:9001" : "http://10.0.0.2:9001");
      ASSERT_EQ(row.holdings.size(), 1U);
      EXPECT_EQ(row.holdings[0].key, (ExpertKey{"m", is_first ? 0U : 1U, 7}));
      EXPECT_EQ(row.roles, std::vector<std::string>{"ExpertHolder"});
      EXPECT_FALSE(row.is_suspect);
    }
  }
}

TEST(NodeInAMesh, ShardMapHasTheOthersBlobUriOnceItsPagesCame) {
  Pair pair;
  pair.run_for(seconds(5));
  const auto map = pair.ask<rpc::ShardMapAnswer>(0, rpc::ShardMapCall{.model = "m"});
  EXPECT_EQ(map.distinct_providers, 2U);
  ASSERT_EQ(map.holders.size(), 2U);
  const rpc::Holder& remote = map.holders[1].holders.at(0);
  EXPECT_EQ(remote.provider, pair.address(1));
  BlobHash hash;
  hash.fill(2);
  EXPECT_EQ(remote.blob_uri, "tenzro://blob/" + to_hex(hash));
  const auto* holding = pair.node(0).view().holding(pair.address(1), {"m", 1, 7});
  ASSERT_NE(holding, nullptr);
  EXPECT_EQ(holding->blob, hash);
  EXPECT_EQ(holding->types->up, tensor::WeightType::q8_0);
  EXPECT_FALSE(holding->types->gate.has_value());
}

TEST(NodeInAMesh, NamesOfModelsThatNobodyHasDoNotKeepARealOneOut) {
  Pair pair({0, 1, 2}, "other");
  pair.run_for(seconds(5));
  for (int i = 0; i < 300; ++i)
    pair.ask<rpc::ShardMapAnswer>(0, rpc::ShardMapCall{.model = "junk-" + std::to_string(i)});
  pair.ask<rpc::ShardMapAnswer>(0, rpc::ShardMapCall{.model = "other"});
  pair.run_for(seconds(5));
  const auto* holding = pair.node(0).view().holding(pair.address(2), {"other", 2, 7});
  ASSERT_NE(holding, nullptr);
  BlobHash hash;
  hash.fill(3);
  EXPECT_EQ(holding->blob, hash);
}

TEST(NodeInAMesh, NameIsToldWithoutControlsAndCutBetweenCharacters) {
  const std::string filler(253, 'x');
  // A control, a lone byte, a late control, and characters of two and three bytes at the end.
  Pair pair({0, 1}, "m",
            "\x1b[1m"
            "\xff\xc2\x9b" +
                filler.substr(3) + "\xc3\xa9\xe2\x82\xac");
  pair.run_for(seconds(5));
  const auto* peer = pair.node(0).gossip()->membership().find(pair.address(1));
  ASSERT_NE(peer, nullptr);
  ASSERT_NE(peer->facts, nullptr);
  EXPECT_EQ(peer->facts->name, "[1m" + filler.substr(3) + "\xc3\xa9");
}

TEST(NodeInAMesh, DrainingIsSeenByTheOther) {
  Pair pair;
  pair.run_for(seconds(5));
  pair.ask<rpc::NodeDrainAnswer>(1, rpc::NodeDrainCall{});
  pair.run_for(seconds(2));
  EXPECT_TRUE(pair.node(0).view().providers().at(pair.address(1)).is_draining);
}

TEST(NodeInAMesh, DrainingNodePlansItselfOnlyForWhatNobodyElseHolds) {
  Pair mesh({1, 1, 0});
  mesh.run_for(seconds(5));
  mesh.ask<rpc::NodeDrainAnswer>(0, rpc::NodeDrainCall{});
  rpc::PlanDispatchCall plan{.model = "m"};
  for (std::uint32_t token = 0; token < 16; ++token)
    plan.routings.push_back({.token_index = token, .experts = {{1, 7}}});
  const auto planned = mesh.ask<rpc::PlanDispatchAnswer>(0, plan);
  ASSERT_FALSE(planned.batches.empty());
  for (const rpc::PlannedBatch& batch : planned.batches) EXPECT_EQ(batch.provider, mesh.address(1));
  mesh.leave(1);
  const auto last = mesh.ask<rpc::PlanDispatchAnswer>(0, plan);
  ASSERT_FALSE(last.batches.empty());
  EXPECT_EQ(last.batches[0].provider, mesh.address(0));
}

TEST(NodeInAMesh, LeavesTheViewOfTheOtherAtGoodbyeAndWhenItFallsSilent) {
  Pair polite;
  polite.run_for(seconds(5));
  polite.leave(1);
  EXPECT_TRUE(polite.node(1).has_left(Instant{seconds(6)}));
  EXPECT_EQ(polite.node(0).view().providers().size(), 1U);
  Pair silent;
  silent.run_for(seconds(5));
  silent.kill(1);
  silent.run_for(seconds(30));
  EXPECT_EQ(silent.node(0).view().providers().at(silent.address(1)).health,
            shards::Health::suspect);
  silent.run_for(seconds(20));
  EXPECT_EQ(silent.node(0).view().providers().size(), 1U);
}

TEST(NodeInAMesh, SuspectHolderIsListedAsSuchAndPlannedLast) {
  // Nodes 1 and 2 hold the same expert. Which of them falls silent decides who is asked.
  for (const std::size_t silent : {1U, 2U}) {
    const std::size_t other = 3 - silent;
    Pair mesh({0, 1, 1});
    mesh.run_for(seconds(5));
    mesh.kill(silent);
    mesh.run_for(seconds(30));
    ASSERT_EQ(mesh.node(0).view().providers().at(mesh.address(silent)).health,
              shards::Health::suspect);
    const auto list = mesh.ask<rpc::ListProvidersAnswer>(0, rpc::ListProvidersCall{});
    ASSERT_EQ(list.providers.size(), 3U);
    for (const rpc::ProviderRow& row : list.providers)
      EXPECT_EQ(row.is_suspect, row.address == mesh.address(silent));
    rpc::PlanDispatchCall plan{.model = "m"};
    for (std::uint32_t token = 0; token < 16; ++token)
      plan.routings.push_back({.token_index = token, .experts = {{1, 7}}});
    const auto planned = mesh.ask<rpc::PlanDispatchAnswer>(0, plan);
    ASSERT_FALSE(planned.batches.empty());
    for (const rpc::PlannedBatch& batch : planned.batches)
      EXPECT_EQ(batch.provider, mesh.address(other));
    // Where nobody else is left it is better than nobody.
    mesh.leave(other);
    const auto last = mesh.ask<rpc::PlanDispatchAnswer>(0, plan);
    ASSERT_FALSE(last.batches.empty());
    EXPECT_EQ(last.batches[0].provider, mesh.address(silent));
  }
}

}  // namespace
}  // namespace tenzro::node
