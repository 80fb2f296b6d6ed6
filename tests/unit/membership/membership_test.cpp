#include "tenzro/membership/membership.hpp"

#include <gtest/gtest.h>

#include "tenzro/crypto/address.hpp"

namespace tenzro::membership {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Heard = Membership::Heard;

constexpr std::uint64_t kWall = 1'800'000'000'000;

EndpointId key_of(std::uint8_t n) {
  EndpointId key{};
  key.fill(n);
  return key;
}

/// A mesh seen from one node; time in seconds since its start.
struct Mesh {
  explicit Mesh(Options options = {}) : members(options, Instant{}, kWall) {}

  static Instant at(double s) {
    return {std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s))};
  }

  static wire::Beat beat(std::uint8_t n, std::uint32_t sequence, double made_at,
                         std::uint64_t incarnation = 100) {
    wire::Beat beat{.public_key = key_of(n), .version = {incarnation, sequence}};
    beat.wall_ms = static_cast<std::uint64_t>(static_cast<double>(kWall) + made_at * 1000);
    beat.record_digest.fill(n);
    return beat;
  }

  Verdict hear(std::uint8_t n, std::uint32_t sequence, double made_at, double now,
               Heard heard = Heard::by_others, std::uint64_t incarnation = 100) {
    const Verdict verdict = members.on_beat(at(now), beat(n, sequence, made_at, incarnation),
                                            wire::Bytes{n}, heard, out);
    if (verdict == Verdict::applied_needs_record) {
      wire::ProviderRecord record{.public_key = key_of(n), .version = {incarnation, 0}};
      wire::RecordDigest digest;
      digest.fill(n);
      EXPECT_TRUE(members.on_record(at(now), record, wire::Bytes{n}, digest, out));
    }
    return verdict;
  }

  void tick(double now) { members.on_tick(at(now), out); }

  [[nodiscard]] const Peer* find(std::uint8_t n) const {
    return members.find(crypto::address_of(key_of(n)));
  }

  [[nodiscard]] bool is_suspect(std::uint8_t n) const {
    return find(n) != nullptr && find(n)->health == Health::suspect;
  }

  template <typename T>
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(std::count_if(
        out.begin(), out.end(), [](const Action& a) { return std::holds_alternative<T>(a); }));
  }

  Membership members;
  Outbox out;
};

TEST(Membership, ProviderShowsOnceItsRecordIsHere) {
  Mesh mesh;
  mesh.members.on_beat(Mesh::at(1), Mesh::beat(1, 1, 1), {1}, Heard::directly, mesh.out);
  EXPECT_EQ(mesh.count<RecordChanged>(), 0U);
  EXPECT_EQ(mesh.find(1)->facts, nullptr);
  mesh.hear(1, 2, 1, 1);
  EXPECT_EQ(mesh.count<RecordChanged>(), 1U);
  EXPECT_NE(mesh.find(1)->facts, nullptr);
}

TEST(Membership, ReplayedOrOlderBeatChangesNothing) {
  Mesh mesh;
  mesh.hear(1, 5, 0, 0);
  EXPECT_EQ(mesh.hear(1, 5, 0, 20), Verdict::known);
  EXPECT_EQ(mesh.hear(1, 4, 20, 20), Verdict::known);
  EXPECT_EQ(mesh.hear(1, 9, 20, 20, Heard::by_others, 99), Verdict::known);
  EXPECT_EQ(mesh.members.totals().replays, 3U);
  mesh.tick(26);
  EXPECT_TRUE(mesh.is_suspect(1));
}

TEST(Membership, NewLifeReplacesTheOldAtOnce) {
  Mesh mesh;
  mesh.hear(1, 500, 0, 0);
  EXPECT_EQ(mesh.hear(1, 1, 3, 3, Heard::by_others, 101), Verdict::applied);
  EXPECT_EQ(mesh.members.peers().size(), 1U);
}

TEST(Membership, SilentPeerBecomesSuspectThenDownWithinTtlAndTwoHeartbeats) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  mesh.hear(2, 1, 0, 0);
  mesh.hear(2, 2, 20, 20);
  mesh.tick(24);
  EXPECT_FALSE(mesh.is_suspect(1));
  mesh.tick(25);
  EXPECT_TRUE(mesh.is_suspect(1));
  EXPECT_FALSE(mesh.is_suspect(2));
  mesh.tick(39);
  EXPECT_NE(mesh.find(1), nullptr);
  mesh.tick(50);
  EXPECT_EQ(mesh.find(1), nullptr);
  EXPECT_EQ(mesh.count<PeerGone>(), 1U);
}

TEST(Membership, SuspectThatBeatsIsAliveAgain) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  mesh.tick(26);
  ASSERT_TRUE(mesh.is_suspect(1));
  mesh.hear(1, 2, 27, 27, Heard::directly);
  EXPECT_FALSE(mesh.is_suspect(1));
  mesh.tick(50);
  EXPECT_FALSE(mesh.is_suspect(1));
  mesh.tick(53);
  EXPECT_TRUE(mesh.is_suspect(1));
}

TEST(Membership, NewsThatTravelledLongDoesNotProlongALife) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  // Made at 5 s and told at 24 s: the provider was heard of at 5 s.
  EXPECT_EQ(mesh.hear(1, 2, 5, 24), Verdict::applied);
  mesh.tick(30);
  EXPECT_TRUE(mesh.is_suspect(1));
}

TEST(Membership, DownPeerIsNotRevivedByItsLastWordsOnlyByALaterBeat) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  mesh.tick(25);
  mesh.tick(40);
  ASSERT_EQ(mesh.find(1), nullptr);
  EXPECT_EQ(mesh.hear(1, 1, 0, 41), Verdict::known);
  EXPECT_EQ(mesh.hear(1, 2, 9, 41), Verdict::too_old);
  EXPECT_EQ(mesh.find(1), nullptr);
  EXPECT_EQ(mesh.hear(1, 6, 41, 42), Verdict::applied_needs_record);
  EXPECT_NE(mesh.find(1), nullptr);
}

TEST(Membership, GoodbyeRemovesAtOnceAndOldBeatsDoNotRevive) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  wire::Beat goodbye = Mesh::beat(1, 3, 2);
  goodbye.is_leaving = true;
  mesh.members.on_beat(Mesh::at(2), goodbye, {9}, Heard::by_others, mesh.out);
  EXPECT_EQ(mesh.find(1), nullptr);
  EXPECT_TRUE(std::get<PeerGone>(mesh.out.back()).said_goodbye);
  EXPECT_EQ(mesh.hear(1, 2, 1, 3), Verdict::known);
  EXPECT_EQ(mesh.find(1), nullptr);
  EXPECT_EQ(mesh.hear(1, 1, 5, 5, Heard::by_others, 101), Verdict::applied_needs_record);
}

TEST(Membership, TombstoneEnds) {
  Mesh mesh({.tombstone_for = std::chrono::minutes(1)});
  mesh.hear(1, 1, 0, 0);
  mesh.tick(25);
  mesh.tick(40);
  EXPECT_EQ(mesh.members.tombstones().size(), 1U);
  mesh.tick(101);
  EXPECT_TRUE(mesh.members.tombstones().empty());
}

TEST(Membership, BeatFromTheFutureIsRefusedCountedAndSaidOnce) {
  Mesh mesh;
  EXPECT_EQ(mesh.hear(1, 1, 62, 1), Verdict::from_future);
  EXPECT_EQ(mesh.hear(1, 2, 63, 1), Verdict::from_future);
  EXPECT_EQ(mesh.members.totals().from_future, 2U);
  EXPECT_EQ(mesh.count<Notice>(), 1U);
  EXPECT_EQ(mesh.hear(1, 1, 50, 1), Verdict::applied_needs_record);
}

TEST(Membership, SkewedClockWithinTheLimitIsMeasuredAndDoesNoHarm) {
  Mesh mesh;
  // The peer's clock is 40 s behind.
  for (std::uint32_t i = 0; i < 20; ++i) mesh.hear(1, i + 1, i * 10.0 - 40, i * 10.0);
  EXPECT_EQ(mesh.find(1)->lag_ms, 40'000);
  mesh.tick(191);
  EXPECT_FALSE(mesh.is_suspect(1));
}

TEST(Membership, BeatFromFarBehindIsRefused) {
  Mesh mesh;
  EXPECT_EQ(mesh.hear(1, 1, 0, 91), Verdict::too_old);
  EXPECT_EQ(mesh.count<Notice>(), 1U);
}

TEST(Membership, RecordThatTheNewestBeatDoesNotNameIsNotTaken) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  wire::RecordDigest other;
  other.fill(200);
  const wire::ProviderRecord record{.public_key = key_of(1), .version = {100, 0}};
  EXPECT_FALSE(mesh.members.on_record(Mesh::at(1), record, {1}, other, mesh.out));
  wire::RecordDigest same;
  same.fill(1);
  EXPECT_FALSE(mesh.members.on_record(Mesh::at(1), record, {1}, same, mesh.out));
  const wire::ProviderRecord stranger{.public_key = key_of(2), .version = {100, 0}};
  EXPECT_FALSE(mesh.members.on_record(Mesh::at(1), stranger, {1}, same, mesh.out));
  EXPECT_EQ(mesh.members.totals().records_unwanted, 3U);
}

TEST(Membership, BeyondPeersMaxNewPeersAreRefused) {
  Mesh mesh({.peers_max = 2});
  mesh.hear(1, 1, 0, 0);
  mesh.hear(2, 1, 0, 0);
  EXPECT_EQ(mesh.hear(3, 1, 0, 0), Verdict::full);
  EXPECT_EQ(mesh.hear(1, 2, 1, 1), Verdict::applied);
}

TEST(Membership, TombstonesAreBounded) {
  Mesh mesh({.peers_max = 2});
  for (std::uint8_t n = 1; n < 6; ++n) {
    mesh.hear(n, 1, n, n);
    wire::Beat goodbye = Mesh::beat(n, 3, n);
    goodbye.is_leaving = true;
    mesh.members.on_beat(Mesh::at(n), goodbye, {n}, Heard::by_others, mesh.out);
  }
  EXPECT_EQ(mesh.members.tombstones().size(), 2U);
  EXPECT_TRUE(mesh.members.tombstones().contains(crypto::address_of(key_of(5))));
}

TEST(Membership, GoodbyesOfStrangersLeaveNoTombstone) {
  Mesh mesh({.peers_max = 2});
  mesh.hear(1, 1, 0, 0);
  wire::Beat goodbye = Mesh::beat(1, 3, 1);
  goodbye.is_leaving = true;
  mesh.members.on_beat(Mesh::at(1), goodbye, {1}, Heard::directly, mesh.out);
  for (std::uint8_t n = 2; n < 9; ++n) {
    wire::Beat stranger = Mesh::beat(n, 3, 2);
    stranger.is_leaving = true;
    EXPECT_EQ(mesh.members.on_beat(Mesh::at(2), stranger, {n}, Heard::directly, mesh.out),
              Verdict::known);
  }
  EXPECT_EQ(mesh.members.tombstones().size(), 1U);
  EXPECT_TRUE(mesh.members.tombstones().contains(crypto::address_of(key_of(1))));
}

TEST(Membership, DeniedAndNotAllowedAreRefused) {
  Mesh denying({.deny = {key_of(1)}});
  EXPECT_EQ(denying.hear(1, 1, 0, 0), Verdict::denied);
  EXPECT_EQ(denying.hear(2, 1, 0, 0), Verdict::applied_needs_record);
  Mesh allowing({.allow = {key_of(1)}});
  EXPECT_EQ(allowing.hear(1, 1, 0, 0), Verdict::applied_needs_record);
  EXPECT_EQ(allowing.hear(2, 1, 0, 0), Verdict::denied);
}

TEST(Membership, WhenMostFallSilentTogetherTheNodeSuspectsItselfAndWaits) {
  Mesh mesh;
  for (std::uint8_t n = 1; n <= 6; ++n) mesh.hear(n, 1, 0, 0);
  mesh.tick(25);
  EXPECT_TRUE(mesh.members.suspects_itself(Mesh::at(25)));
  mesh.tick(41);
  EXPECT_EQ(mesh.members.peers().size(), 6U);
  mesh.tick(50);
  EXPECT_TRUE(mesh.members.peers().empty());
  Mesh one;
  for (std::uint8_t n = 1; n <= 6; ++n) one.hear(n, 1, 0, 0);
  for (std::uint8_t n = 2; n <= 6; ++n) one.hear(n, 2, 20, 20);
  one.tick(25);
  EXPECT_FALSE(one.members.suspects_itself(Mesh::at(25)));
  one.tick(41);
  EXPECT_EQ(one.members.peers().size(), 5U);
}

TEST(Membership, AfterAPauseOfThisProcessSilencesStartAnew) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  mesh.members.on_pause(Mesh::at(101), seconds(100));
  mesh.tick(101);
  EXPECT_FALSE(mesh.is_suspect(1));
  mesh.tick(126);
  EXPECT_TRUE(mesh.is_suspect(1));
}

TEST(Membership, BeatHeardBeforeThePauseIsSeenDoesNotLiveLongerForIt) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  mesh.hear(2, 1, 0, 0);
  mesh.tick(26);
  ASSERT_TRUE(mesh.is_suspect(1));
  mesh.hear(2, 2, 100, 100, Heard::directly);
  mesh.members.on_pause(Mesh::at(100), seconds(74));
  EXPECT_EQ(mesh.find(2)->heard, Mesh::at(100));
  EXPECT_EQ(mesh.find(1)->heard, Mesh::at(74));
  EXPECT_EQ(mesh.find(1)->deadline, Mesh::at(114));
  for (int second = 101; second <= 150; ++second) mesh.tick(second);
  EXPECT_EQ(mesh.find(1), nullptr);
  EXPECT_EQ(mesh.find(2), nullptr) << "ttl and two heartbeats after its last beat";
}

TEST(Membership, WallClockThatIsSetAnewMakesNoBeatLookOldOrAhead) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  // This node's clock was 200 s behind what it says at 10 s; the peer's always was right.
  mesh.members.set_wall(Mesh::at(10), kWall + 210'000);
  EXPECT_EQ(mesh.members.wall_ms(Mesh::at(11)), kWall + 211'000);
  EXPECT_EQ(mesh.find(1)->lag_ms, 200'000);
  mesh.members.set_wall(Mesh::at(12), kWall + 12'000);
  EXPECT_EQ(mesh.find(1)->lag_ms, 0);
  EXPECT_EQ(mesh.hear(1, 2, 13, 13), Verdict::applied);
  EXPECT_EQ(mesh.find(1)->heard, Mesh::at(13));
  // Set forward by 50 s, within the limit: an honest beat is as new as before.
  mesh.members.set_wall(Mesh::at(14), kWall + 64'000);
  EXPECT_EQ(mesh.hear(1, 3, 20, 20), Verdict::applied);
  EXPECT_EQ(mesh.find(1)->heard, Mesh::at(20));
}

TEST(Membership, LoadChangesAreToldRepeatedOnesAreNot) {
  Mesh mesh;
  mesh.hear(1, 1, 0, 0);
  wire::Beat busy = Mesh::beat(1, 2, 1);
  busy.load.is_draining = true;
  mesh.members.on_beat(Mesh::at(1), busy, {1}, Heard::directly, mesh.out);
  busy.version.sequence = 3;
  mesh.members.on_beat(Mesh::at(1), busy, {1}, Heard::directly, mesh.out);
  EXPECT_EQ(mesh.count<LoadChanged>(), 1U);
}

}  // namespace
}  // namespace tenzro::membership
