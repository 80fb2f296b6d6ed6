// One node among hostile, silent and outdated peers.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lone_node.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

wire::Bytes forged(wire::Bytes sealed) {
  sealed.back() ^= 1U;
  return sealed;
}

TEST(GossipCore, BeatWithAForgedSignatureChangesNothingAndIsCounted) {
  LoneNode node;
  const Player b(2);
  const Player c(3);
  node.meet(b);
  node.run_for(seconds(1));
  wire::GossipMessage message;
  message.beats = {forged(b.beat(9, node.elapsed(), b.record()))};
  EXPECT_FALSE(node.hear(c, message));
  EXPECT_EQ(node.core().totals().bad_signatures, 1U);
  EXPECT_EQ(node.find(b)->beat.version.sequence, 1U);
  message.beats = {b.beat(9, node.elapsed(), b.record())};
  ASSERT_TRUE(node.hear(c, message));
  EXPECT_EQ(node.find(b)->beat.version.sequence, 9U);
}

TEST(GossipCore, RecordWithAForgedSignatureIsNotTakenThoughABeatNamesIt) {
  LoneNode node;
  const Player b(2);
  node.meet(b);
  wire::GossipMessage message;
  message.records = {forged(b.record("other"))};
  message.beats = {b.beat(2, node.elapsed(), message.records.front())};
  EXPECT_FALSE(node.hear(b, message));
  EXPECT_EQ(node.core().totals().bad_signatures, 1U);
  EXPECT_EQ(node.find(b)->facts->name, "peer");
  EXPECT_TRUE(node.find(b)->needs_record());
}

TEST(GossipCore, NothingAfterABadItemIsLookedAt) {
  LoneNode node;
  const Player b(2);
  const Player c(3);
  node.meet(b);
  wire::GossipMessage message;
  for (std::uint32_t sequence = 2; sequence < 12; ++sequence)
    message.beats.push_back(forged(b.beat(sequence, node.elapsed(), b.record())));
  message.beats.push_back(b.beat(20, node.elapsed(), b.record()));
  EXPECT_FALSE(node.hear(c, message));
  EXPECT_EQ(node.core().totals().bad_signatures, 1U);
  EXPECT_EQ(node.core().totals().refused, 1U);
  EXPECT_EQ(node.find(b)->beat.version.sequence, 1U);
  message.beats = {{1, 2, 3}, b.beat(20, node.elapsed(), b.record())};
  EXPECT_FALSE(node.hear(c, message));
  EXPECT_EQ(node.find(b)->beat.version.sequence, 1U);
}

TEST(GossipCore, OfAMessageOnlySoManySignaturesAreChecked) {
  LoneNode node({.signatures_max = 3});
  const Player b(2);
  node.meet(b);
  wire::GossipMessage message;
  for (std::uint32_t sequence = 2; sequence < 7; ++sequence)
    message.beats.push_back(b.beat(sequence, node.elapsed(), b.record()));
  ASSERT_TRUE(node.hear(b, message));
  EXPECT_EQ(node.find(b)->beat.version.sequence, 4U);
  ASSERT_TRUE(node.hear(b, message));
  EXPECT_EQ(node.find(b)->beat.version.sequence, 6U) << "the rest, told again";
}

TEST(GossipCore, RecordThatNoBeatNamesIsNotEvenRead) {
  LoneNode node;
  const Player b(2);
  node.meet(b);
  wire::GossipMessage message;
  message.records = {wire::Bytes(100, 7), b.record("other")};
  ASSERT_TRUE(node.hear(b, message));
  EXPECT_EQ(node.core().totals().bad_items, 0U);
  message.beats = {b.beat(2, node.elapsed(), message.records.front())};
  EXPECT_FALSE(node.hear(b, message)) << "named and unreadable";
  EXPECT_EQ(node.core().totals().bad_items, 1U);
}

TEST(GossipCore, RecordsOfOneProviderAreTakenOneASecondAfterAFew) {
  LoneNode node;
  const Player b(2);
  node.meet(b);
  std::uint32_t sequence = 1;
  const auto change = [&] {
    wire::GossipMessage message;
    message.records = {b.record("name " + std::to_string(++sequence))};
    message.beats = {b.beat(sequence, node.elapsed(), message.records.front())};
    EXPECT_TRUE(node.hear(b, message));
    return node.find(b)->facts->name == "name " + std::to_string(sequence);
  };
  int taken = 0;
  for (int i = 0; i < 10; ++i) taken += change() ? 1 : 0;
  EXPECT_EQ(taken, 3) << "the fourth was the first of all";
  node.run_for(milliseconds(1100));
  EXPECT_TRUE(change());
  EXPECT_FALSE(change());
}

TEST(GossipCore, RecordOfAnothersAddressIsNotTaken) {
  LoneNode node;
  const Player b(2);
  const Player liar(3);
  node.meet(b);
  node.meet(liar);
  // Under b's key, signed by the liar; b itself is made to name it.
  wire::ProviderRecord record{.public_key = b.key.public_key(), .version = {kWall, 0}, .name = "x"};
  wire::GossipMessage message;
  message.records = {liar.seal(wire::kRecordTag, wire::encode_record(record).value())};
  message.beats = {b.beat(2, node.elapsed(), message.records.front())};
  EXPECT_FALSE(node.hear(liar, message));
  EXPECT_EQ(node.core().totals().bad_signatures, 1U);
  EXPECT_EQ(node.find(b)->facts->name, "peer");
  // The liar's own record, which only b's beat names: nobody's.
  message.records = {liar.record("y")};
  message.beats = {b.beat(3, node.elapsed(), message.records.front())};
  ASSERT_TRUE(node.hear(liar, message));
  EXPECT_EQ(node.find(b)->facts->name, "peer");
  EXPECT_EQ(node.find(liar)->facts->name, "peer");
}

TEST(GossipCore, BeatOfAnothersAddressIsABadSignature) {
  LoneNode node;
  const Player b(2);
  const Player liar(3);
  node.meet(b);
  wire::Beat beat{.public_key = b.key.public_key(), .version = {kWall, 50}, .wall_ms = kWall};
  wire::GossipMessage message;
  message.beats = {liar.seal(wire::kBeatTag, wire::encode_beat(beat))};
  EXPECT_FALSE(node.hear(liar, message));
  EXPECT_EQ(node.core().totals().bad_signatures, 1U);
  EXPECT_EQ(node.find(b)->beat.version.sequence, 1U);
}

TEST(GossipCore, BootstrapWithAnotherKeyIsNeverJoinedAndSaidOnce) {
  gossip::Options options;
  options.bootstrap = {{Player(2).key.public_key(), "boot:9001"}};
  LoneNode node(options);
  const auto dials = [&] {
    return std::count_if(node.calls.begin(), node.calls.end(), [](const auto& call) {
      return call.target.addresses == std::vector<std::string>{"boot:9001"};
    });
  };
  node.run_for(milliseconds(500));
  ASSERT_EQ(dials(), 1);
  node.answer(node.calls.back(), fail(ErrorCode::forbidden, "", "another key is at that address"));
  node.run_for(seconds(120));
  EXPECT_EQ(dials(), 1);
  ASSERT_EQ(node.notices.size(), 1U);
  EXPECT_THAT(node.notices[0], HasSubstr("bootstrap boot:9001 is not joined"));
  EXPECT_TRUE(node.core().membership().peers().empty());
}

TEST(GossipCore, BootstrapThatRefusesIsAskedAgainLaterAndSaidOnce) {
  gossip::Options options;
  options.bootstrap = {{Player(2).key.public_key(), "boot:9001"}};
  LoneNode node(options);
  node.run_for(milliseconds(500));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(node.calls.size(), 1U) << i;
    node.answer(node.calls.back(), fail(ErrorCode::runtime, "", "the peer refused the request"));
    node.calls.clear();
    node.run_for(seconds(8));
    EXPECT_TRUE(node.calls.empty()) << "a heartbeat has not passed";
    node.run_for(seconds(3));
  }
  ASSERT_EQ(node.notices.size(), 1U);
  EXPECT_THAT(node.notices[0], HasSubstr("is not joined for now"));
}

TEST(GossipCore, UnreachableBootstrapIsSaidOnceAndAgainAfterItWasReached) {
  gossip::Options options;
  options.bootstrap = {{std::nullopt, "boot:9001"}};
  LoneNode node(options);
  node.run_for(milliseconds(500));
  const auto answer = [&](const work::CallResult& result) {
    ASSERT_FALSE(node.calls.empty());
    node.answer(node.calls.back(), result);
    node.calls.clear();
    node.run_for(seconds(12));
  };
  answer(fail(ErrorCode::io, "", "no route to host"));
  answer(fail(ErrorCode::io, "", "no route to host"));
  EXPECT_THAT(node.notices, ElementsAre("bootstrap boot:9001 cannot be reached, tried again: no "
                                        "route to host"));
  answer(work::CallReply{Player(2).key.public_key(), wire::encode_gossip({})});
  answer(fail(ErrorCode::io, "", "no route to host"));
  EXPECT_EQ(node.notices.size(), 2U);
}

TEST(GossipCore, TwoNodesWithOneIdentityAreSaidMoreAndMoreRarely) {
  LoneNode node;
  const Player other(2);
  node.meet(other);
  const Player twin(kLoneSeed);
  for (std::uint32_t i = 1; i <= 8; ++i) {
    wire::Beat beat{
        .public_key = twin.key.public_key(), .version = {kWall + 1000 * i, 1}, .wall_ms = kWall};
    wire::GossipMessage message;
    message.beats = {twin.seal(wire::kBeatTag, wire::encode_beat(beat))};
    ASSERT_TRUE(node.hear(other, message));
    // An earlier life is heard once or twice, which is nothing to speak of.
    EXPECT_EQ(node.notices.size(), i < 4 ? 0U : i < 8 ? 1U : 2U) << i;
    node.run_for(seconds(1));
  }
  EXPECT_THAT(node.notices.front(), HasSubstr("with this node's identity key"));
}

TEST(GossipCore, BootstrapWithoutAKeyJoinsTheNextKeyThatAnswersThere) {
  gossip::Options options;
  options.bootstrap = {{std::nullopt, "boot:9001"}};
  LoneNode node(options);
  node.run_for(milliseconds(500));
  ASSERT_EQ(node.calls.size(), 1U);
  node.answer(node.calls.back(),
              work::CallReply{Player(2).key.public_key(), wire::encode_gossip({})});
  node.calls.clear();
  node.run_for(seconds(2));
  ASSERT_FALSE(node.calls.empty());
  EXPECT_EQ(node.calls.front().target.id, Player(2).key.public_key());
  node.answer(node.calls.front(), fail(ErrorCode::forbidden, "", "another key answered"));
  node.calls.clear();
  node.run_for(seconds(12));
  ASSERT_FALSE(node.calls.empty());
  EXPECT_FALSE(node.calls.front().target.id.has_value());
}

TEST(GossipCore, CallerWithoutAnAddressIsCalledWhereItWasSeenUntilItSaysGoodbye) {
  LoneNode node;
  const Player b(2);
  const auto caller_of = [](std::uint8_t number) { return Player(crypto::Seed{77, number}); };
  const auto tell = [&](const Player& from, std::uint32_t sequence, bool is_leaving) {
    wire::ProviderRecord record{.public_key = from.key.public_key(), .version = {kWall, 0}};
    wire::GossipMessage message;
    message.records = {from.seal(wire::kRecordTag, wire::encode_record(record).value())};
    wire::Beat beat{.public_key = from.key.public_key(), .version = {kWall, sequence}};
    beat.wall_ms = kWall;
    const Hash32 digest = crypto::sha256(message.records.front());
    std::copy_n(digest.begin(), beat.record_digest.size(), beat.record_digest.begin());
    beat.is_leaving = is_leaving;
    message.beats = {from.seal(wire::kBeatTag, wire::encode_beat(beat))};
    ASSERT_TRUE(node.hear(from, message));
  };
  // As many as there is room for, gone again; then one more finds room.
  for (int number = 0; number < 256; ++number) {
    const Player caller = caller_of(static_cast<std::uint8_t>(number));
    tell(caller, 1, false);
    ASSERT_NE(node.find(caller), nullptr);
    tell(caller, 2, true);
    ASSERT_EQ(node.find(caller), nullptr);
  }
  tell(b, 1, false);
  node.calls.clear();
  node.run_for(seconds(3));
  EXPECT_TRUE(std::any_of(node.calls.begin(), node.calls.end(), [&](const auto& call) {
    return call.target.id == b.key.public_key() &&
           call.target.addresses == std::vector<std::string>{b.address};
  }));
}

TEST(GossipCore, AnswerByAnotherKeyThanTheOneCalledIsNotUsed) {
  gossip::Options options;
  options.bootstrap = {{Player(2).key.public_key(), "boot:9001"}};
  LoneNode node(options);
  node.run_for(seconds(2));
  const Player liar(3);
  wire::GossipMessage reply;
  reply.records = {liar.record()};
  reply.beats = {liar.beat(1, node.elapsed(), reply.records.front())};
  node.answer(node.calls.back(),
              work::CallReply{liar.key.public_key(), wire::encode_gossip(reply)});
  EXPECT_EQ(node.find(liar), nullptr);
  // The calls before that one were not answered.
  EXPECT_THAT(node.notices, ElementsAre(HasSubstr("cannot be reached"), HasSubstr("not joined")));
}

/// Goal: a node that cannot reach B, where C can. B is silent from the start, C beats on.
class IndirectProbe : public ::testing::Test {
 protected:
  void SetUp() override {
    node.responsive = {c.key.public_key()};
    node.meet(b);
    node.meet(c);
    for (std::uint32_t sequence = 2; node.elapsed() < seconds(24); ++sequence) beat_of_c(sequence);
    ASSERT_EQ(node.find(b)->health, membership::Health::alive);
    node.calls.clear();
    node.run_for(milliseconds(1500));  // suspect at 25 s, its probes still wait
    ASSERT_EQ(node.find(b)->health, membership::Health::suspect);
  }

  void beat_of_c(std::uint32_t sequence) {
    wire::GossipMessage message;
    message.beats = {c.beat(sequence, node.elapsed(), c.record())};
    ASSERT_TRUE(node.hear(c, message));
    node.run_for(seconds(3));
  }

  /// The call to C that asks it to call B.
  gossip::SendCall indirect() {
    for (const gossip::SendCall& call : node.calls) {
      if (LoneNode::said(call).probe != b.key.address()) continue;
      EXPECT_EQ(call.target.id, c.key.public_key());
      return call;
    }
    ADD_FAILURE() << "C was not asked";
    return {};
  }

  /// Every call to B that waits fails.
  void fail_direct_calls() {
    std::size_t failed = 0;
    for (const gossip::SendCall& call : std::vector(node.calls)) {
      if (call.target.id != b.key.public_key()) continue;
      node.answer(call, fail(ErrorCode::io, "", "unreachable"));
      ++failed;
    }
    EXPECT_GT(failed, 0U) << "B itself was not called";
  }

  LoneNode node;
  Player b{2};
  Player c{3};
};

TEST_F(IndirectProbe, FreshBeatThroughAnotherKeepsTheUnreachableAlive) {
  fail_direct_calls();
  wire::GossipMessage reply{.probe = b.key.address()};
  reply.beats = {b.beat(2, node.elapsed(), b.record())};
  node.answer(indirect(), work::CallReply{c.key.public_key(), wire::encode_gossip(reply)});
  ASSERT_NE(node.find(b), nullptr);
  EXPECT_EQ(node.find(b)->health, membership::Health::alive);
  for (std::uint32_t sequence = 200; sequence < 206; ++sequence) beat_of_c(sequence);
  EXPECT_NE(node.find(b), nullptr) << "alive for a ttl more";
}

TEST_F(IndirectProbe, RelayCannotVouchWithAnOldBeatOrNone) {
  fail_direct_calls();
  wire::GossipMessage reply{.probe = b.key.address()};
  reply.beats = {b.beat(1, Duration(0), b.record())};
  node.answer(indirect(), work::CallReply{c.key.public_key(), wire::encode_gossip(reply)});
  EXPECT_EQ(node.find(b)->health, membership::Health::suspect);
  for (std::uint32_t sequence = 200; sequence < 207; ++sequence) beat_of_c(sequence);
  EXPECT_EQ(node.find(b), nullptr);
}

TEST(GossipCore, OwnBeatOfALifeWhoseClockRanAheadIsOutdone) {
  LoneNode node;
  const Player b(2);
  const Player before(kLoneSeed);
  node.responsive = {b.key.public_key()};
  node.meet(b);
  node.run_for(seconds(1));
  const wire::Version ahead{kWall + 3'600'000, 77};
  wire::Beat old{.public_key = node.key.public_key(), .version = ahead, .wall_ms = kWall};
  wire::GossipMessage message;
  message.beats = {before.seal(wire::kBeatTag, wire::encode_beat(old))};
  node.calls.clear();
  ASSERT_TRUE(node.hear(b, message));
  node.run_for(seconds(1));
  EXPECT_GT(node.core().version(), ahead);
  // It goes out at once, with a record of the new life that it names.
  const auto pushed = std::find_if(node.calls.begin(), node.calls.end(), [](const auto& call) {
    return !LoneNode::said(call).beats.empty();
  });
  ASSERT_NE(pushed, node.calls.end());
  const wire::Bytes sealed = LoneNode::said(*pushed).beats.front();
  const auto beat = wire::decode_beat(wire::split_sealed(sealed)->body).value();
  EXPECT_EQ(beat.public_key, node.key.public_key());
  EXPECT_EQ(beat.version, node.core().version());
  EXPECT_EQ(beat.record_digest, node.core().record_digest());
}

TEST(GossipCore, ForgedOwnBeatDoesNotMoveTheVersion) {
  LoneNode node;
  const Player liar(2);
  const wire::Version version = node.core().version();
  wire::Beat old{.public_key = node.key.public_key(), .version = {kWall + 9999, 1}};
  wire::GossipMessage message;
  message.beats = {liar.seal(wire::kBeatTag, wire::encode_beat(old))};
  EXPECT_FALSE(node.hear(liar, message));
  EXPECT_EQ(node.core().totals().bad_signatures, 1U);
  EXPECT_EQ(node.core().version(), version);
}

TEST(GossipCore, AnotherVersionOrFeatureIsAnsweredWithASentenceAndSaidOnce) {
  LoneNode node;
  const Player newer(2);
  const Player other(3);
  const auto bytes = [](std::uint8_t version, std::uint8_t features) {
    const std::vector<std::uint8_t> all{version, features, 0x30, 0x01};
    return BufferRef::copy_of(std::as_bytes(std::span(all)));
  };
  for (int i = 0; i < 3; ++i) {
    const auto answer = node.hear(newer, bytes(2, 0));
    ASSERT_TRUE(answer);
    EXPECT_EQ(*answer, (wire::GossipMessage{.error = answer->error}));
    EXPECT_THAT(answer->error, HasSubstr("version 2, this node version 1"));
  }
  EXPECT_THAT(node.hear(other, bytes(1, 4))->error, HasSubstr("features that this node lacks: 4"));
  EXPECT_THAT(node.notices, ElementsAre(HasSubstr(to_hex(newer.key.public_key())),
                                        HasSubstr(to_hex(other.key.public_key()))));
  EXPECT_EQ(node.core().totals().refused, 4U);
}

TEST(GossipCore, SentenceOfARefusingPeerIsSaidOnceAndThePeerTriedAgain) {
  gossip::Options options;
  options.bootstrap = {{std::nullopt, "boot:9001"}};
  LoneNode node(options);
  const Player newer(2);
  node.notices.clear();
  for (int i = 0; i < 3; ++i) {
    node.calls.clear();
    node.run_for(seconds(4));
    ASSERT_FALSE(node.calls.empty()) << i;
    std::erase_if(node.notices, [](const std::string& notice) {  // of calls not answered here
      return notice.find("cannot be reached") != std::string::npos;
    });
    node.answer(node.calls.back(),
                work::CallReply{newer.key.public_key(),
                                wire::encode_gossip({.error = "only version 2\nis spoken here"})});
  }
  ASSERT_EQ(node.notices.size(), 1U);
  EXPECT_THAT(node.notices[0], HasSubstr("only version 2"));
  EXPECT_EQ(node.notices[0].find('\n'), std::string::npos);
  // A reply in another version says as much by its first byte.
  const Player newest(3);
  node.calls.clear();
  node.run_for(seconds(4));
  ASSERT_FALSE(node.calls.empty());
  node.answer(node.calls.back(),
              work::CallReply{newest.key.public_key(), BufferRef::copy_of("\x07z")});
  ASSERT_EQ(node.notices.size(), 2U);
  EXPECT_THAT(node.notices[1], HasSubstr("version 7"));
}

}  // namespace
}  // namespace tenzro::testing
