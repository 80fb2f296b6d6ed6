// Requests of tenzro/exec/1 as a node serves them: results, refusals, limits, peers that leave.
#include "peer_world.hpp"

namespace tenzro::testing {
namespace {

using tensor::WeightType;
using wire::Protocol;

struct Case {
  WeightType type = WeightType::f32;
  receipts::CarrierKind carrier = receipts::CarrierKind::dense;
  compute::Profile profile = compute::Profile::exact;
};

class ServeExecCases : public ::testing::TestWithParam<Case> {};

TEST_P(ServeExecCases, ServedRowsEqualLocalOnesBitForBit) {
  PeerWorld peers(node::ExecuteRule::open, GetParam().type);
  peers.call.carrier = GetParam().carrier;
  peers.call.profile = GetParam().profile;
  const auto verified = peers.ask_exec();
  ASSERT_TRUE(verified) << verified.error().message();
  work::RunExperts local{.profile = GetParam().profile,
                         .round_to_q8 = GetParam().carrier == receipts::CarrierKind::q8_0,
                         .input = peers.call.input,
                         .width = kPeerWidth};
  std::vector<work::AdmittedExpert> experts;
  for (const auto& batch : peers.call.batches) {
    auto admitted = work::admit_expert(
        {.blob = random_expert(batch.expert + 1, kPeerWidth, 32, GetParam().type)},
        peers.context());
    ASSERT_TRUE(admitted);
    experts.push_back(*admitted);
    local.batches.push_back({batch.expert, admitted->resident, batch.rows});
  }
  const auto here = work::run_experts(local, peers.context());
  ASSERT_TRUE(here);
  ASSERT_EQ(verified->outputs.size(), here->outputs.size());
  for (std::size_t i = 0; i < here->outputs.size(); ++i) {
    const auto a = here->outputs[i].values.bytes();
    const auto b = verified->outputs[i].values.bytes();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << i;
  }
  EXPECT_EQ(peers.totals().peer_requests_served, 1U);
  EXPECT_EQ(peers.totals().token_expert_pairs, 5U);
}

INSTANTIATE_TEST_SUITE_P(
    All, ServeExecCases,
    ::testing::Values(Case{},
                      Case{WeightType::f32, receipts::CarrierKind::q8_0, compute::Profile::exact},
                      Case{WeightType::f32, receipts::CarrierKind::dense, compute::Profile::fast},
                      Case{WeightType::q8_0, receipts::CarrierKind::dense, compute::Profile::exact},
                      Case{WeightType::q8_0, receipts::CarrierKind::q8_0, compute::Profile::exact},
                      Case{WeightType::q8_0, receipts::CarrierKind::q8_0, compute::Profile::fast}));

TEST(ServeExec, StrangerIsAskedToComeBackUnderMesh) {
  PeerWorld peers(node::ExecuteRule::mesh);
  const std::size_t jobs = peers.world.jobs_run();
  const Error error = peers.refusal(peers.ask(Protocol::exec, peers.request()));
  EXPECT_EQ(error.code, ErrorCode::busy);
  EXPECT_EQ(error.message(), "busy: no record of the caller is known here yet");
  EXPECT_EQ(peers.world.jobs_run(), jobs) << "not even decoded";
  EXPECT_EQ(peers.totals().peer_refused_busy, 1U);
}

TEST(ServeExec, StrangerIsRefusedUnderAllowlistAndToken) {
  for (const auto rule : {node::ExecuteRule::allowlist, node::ExecuteRule::token}) {
    PeerWorld peers(rule);
    const std::size_t jobs = peers.world.jobs_run();
    const Error error = peers.refusal(peers.ask(Protocol::exec, peers.request()));
    EXPECT_EQ(error.code, ErrorCode::runtime);
    EXPECT_EQ(error.message(), "this node executes for other endpoints only (holder.execute)");
    EXPECT_EQ(peers.world.jobs_run(), jobs) << "not even decoded";
    EXPECT_EQ(peers.totals().peer_refused_forbidden, 1U);
  }
}

TEST(ServeExec, ListedEndpointIsServedUnderAllowlist) {
  NodeWorld::Setup setup;
  setup.options.execute_allow = {crypto::KeyPair::from_seed(crypto::Seed{9}).public_key()};
  PeerWorld peers(node::ExecuteRule::allowlist, WeightType::f32, std::move(setup));
  EXPECT_TRUE(peers.ask_exec());
}

TEST(ServeExec, EndpointWithARecordIsServedUnderMesh) {
  PeerWorld peers(node::ExecuteRule::mesh);
  // The only record there is so far is the node's own.
  peers.router = crypto::KeyPair::from_seed(crypto::Seed{1}).public_key();
  peers.call.router = peers.router;
  EXPECT_TRUE(peers.ask_exec());
}

TEST(ServeExec, UnknownExpertIsAnAnswerThatNamesIt) {
  PeerWorld peers;
  peers.call.batches[1].expert = 7;
  const Error error = peers.refusal(peers.ask(Protocol::exec, peers.request()));
  EXPECT_EQ(error.code, ErrorCode::runtime);
  EXPECT_EQ(error.message(), "expert m l4/e7 is not loaded on this host");
  EXPECT_EQ(peers.totals().peer_requests_failed, 1U);
}

TEST(ServeExec, AnotherBlobOrWidthThanHeldIsAnAnswer) {
  PeerWorld peers;
  peers.call.batches[0].blob = BlobHash{1};
  EXPECT_EQ(peers.refusal(peers.ask(Protocol::exec, peers.request())).message(),
            "expert l4/e0 is held here from another blob");
  peers.call.batches[0].blob = {};
  peers.call.width = kPeerWidth / 2;
  EXPECT_EQ(peers.refusal(peers.ask(Protocol::exec, peers.request())).message(),
            "width: 32 is not that of expert l4/e0, 64");
}

TEST(ServeExec, ProfileThatTheNodeDoesNotRunIsRefused) {
  NodeWorld::Setup setup;
  setup.options.profiles = {compute::Profile::exact};
  PeerWorld peers(node::ExecuteRule::open, WeightType::f32, std::move(setup));
  peers.call.profile = compute::Profile::fast;
  EXPECT_EQ(peers.refusal(peers.ask(Protocol::exec, peers.request())).message(),
            "this node does not run the profile fast");
}

TEST(ServeExec, BrokenBytesAreAnsweredWithASentence) {
  PeerWorld peers;
  for (const BufferRef& bytes :
       {BufferRef{}, BufferRef::copy_of("????????????"), peers.request().slice(0, 200)}) {
    const auto reply = wire::decode_exec_reply(peers.ask(Protocol::exec, bytes), kPeerWidth);
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_EQ(reply->status, wire::ExecStatus::failed);
    EXPECT_EQ(reply->failure, wire::ExecFailure::bad_request);
    EXPECT_FALSE(reply->text.empty());
  }
}

TEST(ServeExec, AnotherVersionOrFeatureIsAnsweredWithASentence) {
  PeerWorld peers;
  const auto sentence = [&peers](std::uint8_t version, std::uint8_t features) {
    std::vector<std::uint8_t> bytes(64);
    const std::uint8_t head[] = {4, 0, 0, 0, 0x08, version, 0x10, features};
    std::copy(std::begin(head), std::end(head), bytes.begin());
    const auto reply = wire::decode_exec_reply(
        peers.ask(Protocol::exec, BufferRef::copy_of(std::as_bytes(std::span(bytes)))), kPeerWidth);
    EXPECT_TRUE(reply) << reply.error().message();
    return reply ? reply->text : std::string();
  };
  EXPECT_EQ(sentence(2, 0), "this node speaks tenzro/exec version 1, not 2");
  EXPECT_EQ(sentence(1, 5), "the message needs features that this node lacks: 5");
}

TEST(ServeExec, RowsThatAreNotFiniteAreRefused) {
  PeerWorld peers;
  BufferRef message = peers.request();
  message.mutable_as<std::uint32_t>().back() = 0x7FC00000U;
  EXPECT_EQ(peers.refusal(peers.ask(Protocol::exec, message)).message(),
            "rows: row 3 holds a value that is not finite");
}

TEST(ServeExec, OutputsThatAreNotFiniteAreAnErrorNotAReply) {
  PeerWorld peers;
  std::vector<float> huge(6UL * kPeerWidth, 3.0e38F);
  peers.call.input = BufferRef::copy_of(std::as_bytes(std::span(huge)));
  const Error error = peers.refusal(peers.ask(Protocol::exec, peers.request()));
  EXPECT_EQ(error.code, ErrorCode::runtime);
  EXPECT_TRUE(error.message().starts_with("moe execute: non-finite output for token "))
      << error.message();
}

TEST(ServeExec, BeyondQueueMaxPeersHearBusyAtOnce) {
  NodeWorld::Setup setup;
  setup.options.requests_max = 2;
  PeerWorld peers(node::ExecuteRule::open, WeightType::f32, std::move(setup));
  const BufferRef message = peers.request();
  for (int i = 0; i < 2; ++i) peers.world.begin_peer(Protocol::exec, peers.router, message);
  const PeerRequestId third = peers.world.begin_peer(Protocol::exec, peers.router, message);
  EXPECT_EQ(peers.refusal(peers.reply_to(third)).code, ErrorCode::busy);
  const PeerRequestId frame = peers.world.begin_peer(Protocol::moe, peers.router, message);
  EXPECT_THAT(std::string(peers.reply_to(frame).text()), ::testing::HasSubstr("busy: 2 requests"));
  EXPECT_EQ(peers.totals().peer_refused_busy, 2U);
  peers.world.settle();
  EXPECT_EQ(peers.world.take_peer_actions().size(), 2U);
  EXPECT_EQ(peers.world.node().peer_requests_in_progress(), 0U);
  EXPECT_TRUE(peers.ask_exec());
}

TEST(ServeExec, CallsOverHttpCountAsWell) {
  NodeWorld::Setup setup;
  setup.options.requests_max = 4;
  PeerWorld peers(node::ExecuteRule::open, WeightType::f32, std::move(setup));
  const BufferRef message = peers.request();
  for (int i = 0; i < 4; ++i) peers.world.begin_peer(Protocol::exec, peers.router, message);
  const RequestId call = peers.world.begin(
      rpc::ExecuteCall{.key = {"m", 4, 0}, .d_model = kPeerWidth, .token_indices = {0}});
  const auto answer = peers.world.answer(call);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->error().code, ErrorCode::busy);
}

TEST(ServeExec, ShortMemoryIsBusyBeforeAndAfterDecoding) {
  PeerWorld sizes;
  const std::uint64_t message = sizes.request().size();
  NodeWorld::Setup setup;
  setup.options.peer_bytes_max = message - 1;
  PeerWorld before(node::ExecuteRule::open, WeightType::f32, setup);
  EXPECT_EQ(before.refusal(before.ask(Protocol::exec, before.request())).code, ErrorCode::busy);
  setup.options.peer_bytes_max = message + 1;
  PeerWorld after(node::ExecuteRule::open, WeightType::f32, setup);
  EXPECT_EQ(after.refusal(after.ask(Protocol::exec, after.request())).code, ErrorCode::busy);
}

TEST(ServeExec, DrainingNodeIsBusy) {
  PeerWorld peers;
  peers.world.node().drain();
  EXPECT_EQ(peers.ask_exec().error().code, ErrorCode::busy);
}

TEST(ServeExec, NodeThatDrainsStillServesPeersUntilItLeaves) {
  PeerWorld peers;
  peers.world.node().begin_drain(Instant{}, std::chrono::seconds(600));
  EXPECT_TRUE(peers.world.node().is_draining());
  EXPECT_TRUE(peers.ask_exec());
  peers.world.node().drain();
  EXPECT_EQ(peers.ask_exec().error().code, ErrorCode::busy);
}

TEST(ServeExec, BudgetOfTheRequestIsTheDeadline) {
  PeerWorld peers;
  const PeerRequestId id = peers.world.begin_peer(Protocol::exec, peers.router,
                                                  peers.request(std::chrono::milliseconds(200)));
  peers.world.work();  // decoded; the experts wait to be run
  peers.world.advance(std::chrono::milliseconds(199));
  EXPECT_TRUE(peers.reply_to(id).empty());
  peers.world.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(peers.refusal(peers.reply_to(id)).message(), "moe execute: deadline exceeded");
  peers.world.settle();
  EXPECT_TRUE(peers.world.take_peer_actions().empty());
  EXPECT_EQ(peers.world.node().next_deadline(), std::nullopt);
}

TEST(ServeExec, LongBudgetIsCutToTheNodesOwn) {
  NodeWorld::Setup setup;
  setup.options.forward_deadline = std::chrono::seconds(1);
  PeerWorld peers(node::ExecuteRule::open, WeightType::f32, std::move(setup));
  const PeerRequestId id =
      peers.world.begin_peer(Protocol::exec, peers.router, peers.request(std::chrono::minutes(5)));
  peers.world.work();
  peers.world.advance(std::chrono::seconds(1));
  EXPECT_FALSE(peers.reply_to(id).empty());
}

TEST(ServeExec, PeerThatLeavesAtAnyStepGetsNothingAndLeavesNothing) {
  for (std::size_t steps = 0; steps < 4; ++steps) {
    PeerWorld peers;
    const PeerRequestId id = peers.world.begin_peer(Protocol::exec, peers.router, peers.request());
    peers.world.work(steps);
    if (peers.world.node().peer_requests_in_progress() == 0) break;
    peers.world.cancel_peer(id);
    EXPECT_EQ(peers.world.node().peer_requests_in_progress(), 0U);
    peers.world.settle();
    EXPECT_TRUE(peers.world.take_peer_actions().empty()) << steps;
    EXPECT_EQ(peers.totals().peer_requests_cancelled, 1U);
    // Its leases are gone: the experts can be unloaded and others served.
    EXPECT_TRUE(peers.ask_exec());
  }
}

TEST(ServeExec, ExpertsThatDoNotFitTogetherAreServedInTurns) {
  PeerWorld sizes;
  const auto status =
      expect_answer<rpc::ExpertStatusAnswer>(sizes.world.call(rpc::ExpertStatusCall{}));
  NodeWorld::Setup setup;
  // Two of three: one and its bytes while it is loaded.
  setup.options.holder.memory_budget_bytes = status.memory_bytes * 3 / 4;
  PeerWorld peers(node::ExecuteRule::open, WeightType::f32, std::move(setup));
  peers.call.batches.insert(peers.call.batches.begin() + 1, {1, {3}, {}});
  const auto verified = peers.ask_exec();
  ASSERT_TRUE(verified) << verified.error().message();
  EXPECT_EQ(verified->outputs.size(), 3U);
}

TEST(ServeExec, ProtocolThatTheNodeDoesNotSpeakIsRefused) {
  PeerWorld peers;  // it has not joined a mesh
  peers.world.begin_peer(Protocol::gossip, peers.router, BufferRef::copy_of("x"));
  const auto actions = peers.world.take_peer_actions();
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<node::RefuseRequest>(actions.front()));
}

}  // namespace
}  // namespace tenzro::testing
