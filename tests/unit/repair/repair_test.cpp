// One core and a view made by hand: what it fetches, from when on, and what it leaves alone.
#include "tenzro/repair/repair.hpp"

#include <algorithm>
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh_view.hpp"

namespace tenzro::repair {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::uint8_t kSelf = 1;
const Room kRoom{.free_bytes = 1'000'000};

/// Self is the only candidate that holds nothing of experts 0 and 1, unless others are added.
struct Fixture {
  explicit Fixture(const std::function<void(Options&)>& tune = nullptr) {
    options.self = address(kSelf);
    options.interval = seconds(80);
    options.grace = seconds(400);
    if (tune) tune(options);
    core.emplace(options);
    mesh.add_all(3);
    mesh.hold(kSelf, 100);
    mesh.hold(2, 100);
  }

  Outbox run(Duration until) { return run_until(*core, mesh.view, Instant{until}, kRoom); }

  static std::vector<ExpertIndex> fetched(const Outbox& actions) {
    std::vector<ExpertIndex> experts;
    for (const Action& action : actions) {
      if (const auto* fetch = std::get_if<FetchExpert>(&action))
        experts.push_back(fetch->key.expert);
    }
    return experts;
  }

  MeshView mesh;
  Options options;
  std::optional<Repair> core;
};

TEST(Repair, FirstPassWaitsForTheGraceThenOneAnInterval) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  EXPECT_FALSE(fixture.core->next_deadline());
  fixture.core->start(Instant{});
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(399))), IsEmpty());
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(415))), ElementsAre(0U));
  EXPECT_EQ(fixture.core->totals().passes, 1U);
  fixture.run(seconds(415 + 240));
  EXPECT_EQ(fixture.core->totals().passes, 4U);
}

TEST(Repair, TakesNoMoreThanItsAdmissionsAPass) {
  Fixture fixture;
  for (ExpertIndex e = 0; e < 5; ++e) fixture.mesh.hold(2, e);
  fixture.mesh.change(3, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.core->start(Instant{});
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(415))), ElementsAre(0U, 1U));
  // One that comes makes no room for another in the same pass, one that fails does.
  fixture.core->on_fetched(Instant{seconds(415)}, {"m", 0, 0}, std::uint64_t{10});
  fixture.mesh.hold(kSelf, 0);
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(416))), IsEmpty());
  fixture.core->on_fetched(Instant{seconds(416)}, {"m", 0, 1}, fail(ErrorCode::io, "", "lost"));
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(417))), ElementsAre(2U));
  EXPECT_EQ(fixture.core->totals().admitted, 1U);
  EXPECT_EQ(fixture.core->totals().fetches_failed, 1U);
}

TEST(Repair, ExpertsWithFewestHoldersComeFirst) {
  Fixture fixture([](Options& options) {
    options.policy.min_replication = 3;
    options.max_admissions = 10;
  });
  fixture.mesh.hold(2, 0);
  fixture.mesh.hold(3, 0);
  fixture.mesh.hold(2, 1);
  fixture.mesh.hold(3, 2);
  fixture.mesh.change(3, [](auto& other) { other.committed_tps = 50; });
  fixture.core->start(Instant{});
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(415))), ElementsAre(2U, 1U, 0U));
}

TEST(Repair, ProviderThatWentCountsForTheGrace) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  fixture.mesh.hold(3, 0);
  fixture.core->start(Instant{});
  fixture.run(seconds(500));
  fixture.core->on_gone(Instant{seconds(500)}, address(3),
                        fixture.mesh.view.remove_provider(address(3)));
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(899))), IsEmpty());
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(980))), ElementsAre(0U));
}

TEST(Repair, SuspectHolderStillCounts) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  fixture.mesh.hold(3, 0);
  fixture.mesh.change(3, [](auto& other) { other.health = shards::Health::suspect; });
  fixture.core->start(Instant{});
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(1000))), IsEmpty());
}

TEST(Repair, ModelOfWhichNothingIsHeldHereIsNotItsBusinessUnlessItOptedIn) {
  for (const bool opts_in : {false, true}) {
    Fixture fixture([&](Options& options) {
      if (opts_in) options.models = {"other"};
    });
    fixture.mesh.view.declare(address(2), {"other", 0, 5}, {.blob_uri = "u", .blob = blob(4)});
    fixture.mesh.change(kSelf, [&](auto& self) { self.repair_models = fixture.options.models; });
    fixture.core->start(Instant{});
    EXPECT_EQ(Fixture::fetched(fixture.run(seconds(415))).size(), opts_in ? 1U : 0U);
  }
}

TEST(Repair, NothingIsFetchedWithoutRoomAndNothingLargerThanTheRoomIsAllowed) {
  Fixture fixture([](Options& options) { options.max_admissions = 10; });
  for (ExpertIndex e = 0; e < 4; ++e) fixture.mesh.hold(2, e);
  fixture.mesh.change_all([](auto& provider) { provider.expert_bytes["m"] = 400; });
  fixture.mesh.change(3, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.core->start(Instant{});
  const Outbox out =
      run_until(*fixture.core, fixture.mesh.view, Instant{seconds(415)}, {.free_bytes = 1000});
  // The first may take all there is, so that nothing is left for a second beside it.
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(std::get<FetchExpert>(out[0]).bytes_max, 1000U);
  EXPECT_THAT(
      run_until(*fixture.core, fixture.mesh.view, Instant{seconds(490)}, {.free_bytes = 399}),
      IsEmpty());
}

TEST(Repair, BusyNodeWaitsAndADoubtfulOneDoesNotJudge) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  fixture.core->start(Instant{});
  Room room = kRoom;
  room.doubts_view = true;
  EXPECT_THAT(run_until(*fixture.core, fixture.mesh.view, Instant{seconds(600)}, room), IsEmpty());
  EXPECT_EQ(fixture.core->totals().passes, 0U);
  room = {.free_bytes = 1000, .is_busy = true};
  EXPECT_THAT(run_until(*fixture.core, fixture.mesh.view, Instant{seconds(620)}, room), IsEmpty());
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(621))), ElementsAre(0U));
}

TEST(Repair, ByteRateSpacesTheFetches) {
  Fixture fixture([](Options& options) { options.bytes_per_s = 100; });
  for (ExpertIndex e = 0; e < 10; ++e) fixture.mesh.hold(2, e);
  fixture.mesh.change_all([](auto& provider) { provider.expert_bytes["m"] = 100; });
  fixture.mesh.change(3, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.core->start(Instant{});
  std::size_t fetched = 0;
  Duration end = seconds(402);  // the pass comes a little after 400 s
  for (int second = 0; second < 5; ++second, end += seconds(1)) {
    for (const Action& action : fixture.run(end)) {
      const ExpertKey key = std::get<FetchExpert>(action).key;
      ++fetched;
      fixture.core->on_fetched(Instant{end}, key, std::uint64_t{100});
      fixture.mesh.hold(kSelf, key.expert);
    }
  }
  EXPECT_GE(fetched, 5U);
  EXPECT_LE(fetched, 7U);  // one a second, and one second's worth at once
}

TEST(Repair, CandidateThatAdmitsNothingInTwoPassesYieldsToTheNext) {
  Fixture fixture;
  fixture.mesh.hold(3, 100);
  fixture.mesh.add(4);
  fixture.mesh.set();
  fixture.mesh.hold(4, 100);
  // An expert for which another candidate comes before this node.
  ExpertIndex expert = 0;
  const std::vector<Contender> all{make_contender(address(kSelf)), make_contender(address(3))};
  while (rank({"m", 0, expert}, all)[0] == address(kSelf)) ++expert;
  fixture.mesh.change(4, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.mesh.hold(2, expert);
  fixture.core->start(Instant{});
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(420 + 80))), IsEmpty());
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(420 + 160))), ElementsAre(expert));
  EXPECT_EQ(fixture.core->totals().passed_over, 1U);
}

TEST(Repair, CandidateWithABacklogThatAdmitsSomethingKeepsItsRows) {
  Fixture fixture;
  fixture.mesh.hold(3, 100);
  ExpertIndex expert = 0;
  const std::vector<Contender> all{make_contender(address(kSelf)), make_contender(address(3))};
  while (rank({"m", 0, expert}, all)[0] == address(kSelf)) ++expert;
  fixture.mesh.hold(2, expert);
  fixture.core->start(Instant{});
  for (int pass = 0; pass < 10; ++pass) {
    fixture.mesh.hold(3, 1000 + static_cast<ExpertIndex>(pass));
    fixture.mesh.hold(2, 1000 + static_cast<ExpertIndex>(pass));
    EXPECT_THAT(Fixture::fetched(fixture.run(seconds(420 + pass * 80))), IsEmpty());
  }
}

TEST(Repair, ThisNodeYieldsTooWhenItsFetchesFail) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  fixture.mesh.change(3, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.core->start(Instant{});
  std::size_t tries = 0;
  for (int pass = 0; pass < 10; ++pass) {
    for (const ExpertIndex expert : Fixture::fetched(fixture.run(seconds(420 + pass * 80)))) {
      ++tries;
      fixture.core->on_fetched(Instant{seconds(420 + pass * 80)}, {"m", 0, expert},
                               fail(ErrorCode::io, "", "broken"));
    }
  }
  EXPECT_EQ(tries, 2U);
}

/// What the expert becomes has no room here, or the bytes are no expert.
class UnusableBytes : public ::testing::TestWithParam<ErrorCode> {};

TEST_P(UnusableBytes, AreNotFetchedAgainForManyPasses) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  fixture.core->start(Instant{});
  ASSERT_THAT(Fixture::fetched(fixture.run(seconds(415))), ElementsAre(0U));
  fixture.core->on_fetched(Instant{seconds(415)}, {"m", 0, 0},
                           fail(GetParam(), "", "cannot be used here"));
  EXPECT_EQ(fixture.core->totals().fetches_failed, 1U);
  fixture.mesh.hold(2, 1);  // another is none of its business
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(495))), ElementsAre(1U));
  fixture.core->on_fetched(Instant{seconds(495)}, {"m", 0, 1}, std::uint64_t{10});
  fixture.mesh.hold(kSelf, 1);
  const seconds again(400 + 80 * static_cast<std::int64_t>(Repair::kUnusableFor));
  EXPECT_THAT(Fixture::fetched(fixture.run(again - seconds(1))), IsEmpty());
  EXPECT_EQ(fixture.core->totals().passes, Repair::kUnusableFor);
  EXPECT_THAT(Fixture::fetched(fixture.run(again + seconds(15))), ElementsAre(0U));
}

INSTANTIATE_TEST_SUITE_P(Codes, UnusableBytes,
                         ::testing::Values(ErrorCode::no_space, ErrorCode::runtime));

TEST(Repair, OtherBytesOfAnExpertThatThisNodeCouldNotUseAreFetched) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  fixture.core->start(Instant{});
  ASSERT_THAT(Fixture::fetched(fixture.run(seconds(415))), ElementsAre(0U));
  fixture.core->on_fetched(Instant{seconds(415)}, {"m", 0, 0},
                           fail(ErrorCode::no_space, "", "takes more than this node has"));
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(495))), IsEmpty());
  fixture.mesh.hold(2, 0, true, 8);
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(575))), ElementsAre(0U));
}

TEST(Repair, WhatThisNodeCannotUseTheNextInRankIsNamedFor) {
  Fixture fixture;
  fixture.mesh.hold(3, 100);
  ExpertIndex expert = 0;
  const std::vector<Contender> all{make_contender(address(kSelf)), make_contender(address(3))};
  while (rank({"m", 0, expert}, all)[0] != address(kSelf)) ++expert;
  fixture.mesh.hold(2, expert);
  fixture.core->start(Instant{});
  ASSERT_THAT(Fixture::fetched(fixture.run(seconds(415))), ElementsAre(expert));
  EXPECT_EQ(fixture.core->findings().named_here, 1U);
  fixture.core->on_fetched(Instant{seconds(415)}, {"m", 0, expert},
                           fail(ErrorCode::no_space, "", "takes more than this node has"));
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(575))), IsEmpty());
  EXPECT_EQ(fixture.core->findings().named_here, 0U);
  EXPECT_EQ(fixture.core->findings().under_replicated, 1U);
}

TEST(Repair, FetchThatIsNotWantedAnyMoreIsCancelled) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  fixture.core->start(Instant{});
  ASSERT_EQ(fixture.run(seconds(415)).size(), 1U);
  EXPECT_TRUE(fixture.core->wants(fixture.mesh.view, {"m", 0, 0}));
  fixture.mesh.hold(3, 0);
  EXPECT_FALSE(fixture.core->wants(fixture.mesh.view, {"m", 0, 0}));
  const Outbox out = fixture.run(seconds(500));
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(std::get<CancelFetch>(out[0]).key.expert, 0U);
  EXPECT_EQ(fixture.core->in_flight(), 0U);
}

TEST(Repair, LeavingHoldersCountExceptWhereNobodyElseIsLeft) {
  Fixture fixture([](Options& options) { options.max_admissions = 10; });
  fixture.mesh.hold(2, 0);
  fixture.mesh.hold(3, 0);
  fixture.mesh.hold(2, 1);
  fixture.mesh.add(4);
  fixture.mesh.set();
  fixture.mesh.hold(4, 1);
  fixture.mesh.change(4, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.mesh.change(2, [](auto& other) { other.is_draining = true; });
  fixture.mesh.change(3, [](auto& other) { other.is_draining = true; });
  fixture.core->start(Instant{});
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(415))), ElementsAre(0U));
}

TEST(Repair, NewsOfOneThatLeavesBringsAPassSoonAndMoreWhileItHoldsAnythingAlone) {
  Fixture fixture([](Options& options) { options.max_admissions = 0; });
  fixture.mesh.hold(2, 0);
  fixture.core->start(Instant{});
  fixture.run(seconds(415));
  const auto before = fixture.core->totals().passes;
  fixture.mesh.change(2, [](auto& other) { other.is_draining = true; });
  fixture.core->on_leaving(Instant{seconds(416)}, address(2));
  fixture.run(seconds(420));
  EXPECT_EQ(fixture.core->totals().passes, before + 1);
  fixture.run(seconds(460));
  EXPECT_EQ(fixture.core->totals().passes, before + 5);
}

TEST(Repair, HotExpertGetsOneCopyMoreOnlyWhereAllItsHoldersAreHot) {
  for (const std::uint32_t other : {999U, 1000U}) {
    Fixture fixture;
    fixture.mesh.hold(2, 0);
    fixture.mesh.hold(3, 0);
    fixture.mesh.change(2, [](auto& holder) { holder.committed_tps = 5000; });
    fixture.mesh.change(3, [&](auto& holder) { holder.committed_tps = other; });
    fixture.core->start(Instant{});
    EXPECT_EQ(Fixture::fetched(fixture.run(seconds(415))).size(), other >= 1000 ? 1U : 0U);
  }
}

TEST(Repair, BlobThatMostHoldersDeclareIsFetched) {
  Fixture fixture([](Options& options) { options.policy.min_replication = 4; });
  fixture.mesh.add(4);
  fixture.mesh.set();
  fixture.mesh.hold(2, 0, true, 200);
  fixture.mesh.hold(3, 0, true, 201);
  fixture.mesh.hold(4, 0, true, 201);
  fixture.core->start(Instant{});
  const Outbox out = fixture.run(seconds(415));
  bool is_found = false;
  for (const Action& action : out) {
    const auto& fetch = std::get<FetchExpert>(action);
    if (fetch.key.expert != 0) continue;
    EXPECT_EQ(fetch.blob, blob(201));
    is_found = true;
  }
  EXPECT_TRUE(is_found);
}

/// The three nodes that hold every expert of the tests of surplus.
std::vector<Contender> three_holders() {
  return {make_contender(address(kSelf)), make_contender(address(2)), make_contender(address(3))};
}

/// Five experts with one copy more than the policy's two, which this node is to drop; two a pass.
struct SurplusFixture : Fixture {
  SurplusFixture()
      : Fixture([](Options& tuned) {
          tuned.policy.max_replication = 2;
          tuned.max_admissions = 2;
        }) {
    for (ExpertIndex e = 0; mine.size() < 5; ++e) {
      if (rank({"m", 0, e}, three_holders()).back() != address(kSelf)) continue;
      mine.push_back(e);
      for (std::uint8_t holder = 1; holder <= 3; ++holder) mesh.hold(holder, e);
    }
  }

  std::vector<ExpertIndex> mine;
};

TEST(Repair, SurplusIsDroppedByTheLastInRankAfterTwoPassesAndOnlyBesideLivingOthers) {
  Fixture fixture([](Options& options) { options.policy.max_replication = 2; });
  // An expert of which this node is the last in rank.
  ExpertIndex expert = 0;
  while (rank({"m", 0, expert}, three_holders()).back() != address(kSelf)) ++expert;
  for (std::uint8_t holder = 1; holder <= 3; ++holder) fixture.mesh.hold(holder, expert);
  fixture.mesh.change(3, [](auto& other) { other.health = shards::Health::suspect; });
  fixture.core->start(Instant{});
  EXPECT_THAT(fixture.run(seconds(560)), IsEmpty());
  fixture.mesh.change(3, [](auto& other) { other.health = shards::Health::alive; });
  EXPECT_THAT(fixture.run(seconds(570)), IsEmpty());
  const Outbox out = fixture.run(seconds(740));
  ASSERT_FALSE(out.empty());
  const auto& drop = std::get<DropExpert>(out[0]);
  EXPECT_EQ(drop.key.expert, expert);
  EXPECT_EQ(drop.blob, blob(9));
  EXPECT_THAT(drop.others, UnorderedElementsAre(address(2), address(3)));
}

TEST(Repair, OfWhatThisNodeMayDropTheLongestUnusedGoesFirst) {
  SurplusFixture fixture;
  const std::vector<ExpertIndex>& mine = fixture.mine;
  Room room = kRoom;
  room.last_use = [&](const ExpertKey& key) -> std::uint64_t {
    const auto at = std::find(mine.begin(), mine.end(), key.expert) - mine.begin();
    return (std::array<std::uint64_t, 5>{30, 10, 50, 20, 40}).at(static_cast<std::size_t>(at));
  };
  fixture.core->start(Instant{});
  std::vector<ExpertIndex> dropped;
  for (const Action& action :
       run_until(*fixture.core, fixture.mesh.view, Instant{seconds(500)}, room)) {
    if (const auto* drop = std::get_if<DropExpert>(&action)) dropped.push_back(drop->key.expert);
  }
  EXPECT_THAT(dropped, ElementsAre(mine[1], mine[3]));
}

TEST(Repair, WhatCouldNotBeDroppedLetsTheNextGoAndComesAgainLater) {
  SurplusFixture fixture;
  const std::vector<ExpertIndex>& mine = fixture.mine;
  Room room = kRoom;
  room.last_use = [](const ExpertKey& key) -> std::uint64_t { return key.expert; };
  fixture.core->start(Instant{});
  // No proof ever succeeds: the view stays as it is.
  std::map<std::uint64_t, std::vector<ExpertIndex>> asked;  // by pass
  for (int second = 400; second < 400 + 12 * 80; ++second) {
    for (const Action& action :
         run_until(*fixture.core, fixture.mesh.view, Instant{seconds(second)}, room)) {
      if (const auto* drop = std::get_if<DropExpert>(&action))
        asked[fixture.core->totals().passes].push_back(drop->key.expert);
    }
  }
  EXPECT_THAT(asked[2], ElementsAre(mine[0], mine[1]));
  EXPECT_THAT(asked[3], ElementsAre(mine[2], mine[3]));
  EXPECT_THAT(asked[4], ElementsAre(mine[4]));
  for (std::uint64_t pass = 5; pass < 2 + Repair::kPassedOverFor; ++pass)
    EXPECT_THAT(asked[pass], IsEmpty()) << pass;
  EXPECT_THAT(asked[2 + Repair::kPassedOverFor], ElementsAre(mine[0], mine[1]));
}

TEST(Repair, SliceIsBoundedInHashesToo) {
  Fixture fixture([](Options& options) { options.slots_per_slice = 100'000; });
  constexpr std::uint8_t kProviders = 200;
  for (std::uint8_t other = 10; other < kProviders; ++other) {
    fixture.mesh.add(other).repair_models = {"m"};
    fixture.mesh.set();
  }
  for (ExpertIndex e = 0; e < 200; ++e) fixture.mesh.hold(2, e);
  fixture.core->start(Instant{});
  Instant now = *fixture.core->next_deadline();
  Outbox out;
  std::size_t slices = 0;
  while (fixture.core->totals().passes == 0 || fixture.core->findings().under_replicated == 0) {
    ASSERT_LT(++slices, 100U);
    fixture.core->on_tick(now, fixture.mesh.view, kRoom, out);
    now = std::max(now, *fixture.core->next_deadline());
  }
  EXPECT_EQ(fixture.core->findings().under_replicated, 199U) << "this node has one of them too";
  EXPECT_GE(slices, std::size_t{200} * (kProviders - 10) / Repair::kScoresPerSlice);
}

TEST(Repair, HoldersThatSeeTiersDifferentlyNeverDropForEachOther) {
  for (ExpertIndex expert = 0; expert < 20; ++expert) {
    std::set<ProviderAddress> dropping;
    for (std::uint8_t self = 1; self <= 3; ++self) {
      MeshView mesh;
      mesh.add_all(3);
      // Each knows that its own copy is cold, and has not heard it of the others.
      for (std::uint8_t holder = 1; holder <= 3; ++holder)
        mesh.hold(holder, expert, holder != self);
      Options options{.self = address(self), .interval = seconds(80), .grace = seconds(400)};
      options.policy.max_replication = 2;
      Repair core(options);
      core.start(Instant{});
      for (const Action& action : run_until(core, mesh.view, Instant{seconds(600)}, kRoom)) {
        if (std::holds_alternative<DropExpert>(action)) dropping.insert(address(self));
      }
    }
    EXPECT_EQ(dropping.size(), 1U) << expert;
  }
}

TEST(Repair, SurplusIsFoundAndKeptWhereProvidersAreStrangers) {
  Fixture fixture([](Options& options) {
    options.policy.max_replication = 2;
    options.drops_surplus = false;
  });
  for (std::uint8_t holder = 1; holder <= 3; ++holder) {
    for (ExpertIndex e = 0; e < 20; ++e) fixture.mesh.hold(holder, e);
  }
  fixture.core->start(Instant{});
  EXPECT_THAT(fixture.run(seconds(1000)), IsEmpty());
  EXPECT_GT(fixture.core->findings().surplus, 0U);
  EXPECT_EQ(fixture.core->totals().drops, 0U);
}

TEST(Repair, OneLiarAboutTheSizeOfExpertsStopsNothing) {
  for (const bool holds_some : {true, false}) {
    for (const std::uint64_t lie : {std::uint64_t{1}, std::uint64_t{1} << 60U}) {
      Fixture fixture([](Options& options) { options.models = {"m"}; });
      fixture.mesh.add(4);
      fixture.mesh.set();
      fixture.mesh.hold(3, 100);
      fixture.mesh.hold(4, 100);
      fixture.mesh.hold(2, 0);
      fixture.mesh.change_all([](auto& provider) {
        provider.expert_bytes["m"] = 400;
        if (provider.address != address(kSelf)) provider.repair_free_bytes.reset();
      });
      fixture.mesh.change(kSelf, [](auto& self) { self.repair_models = {"m"}; });
      fixture.mesh.change(4, [&](auto& liar) { liar.expert_bytes["m"] = lie; });
      if (!holds_some) fixture.mesh.view.withdraw(address(kSelf), {"m", 0, 100});
      fixture.core->start(Instant{});
      const Outbox out = fixture.run(seconds(415));
      ASSERT_EQ(out.size(), 1U) << lie;
      EXPECT_EQ(std::get<FetchExpert>(out[0]).bytes_max, 8 * 400U);
    }
  }
}

TEST(Repair, OnEqualVotesWhatWasDeclaredFirstIsFetchedAndElseNothing) {
  for (const bool saw_it_before : {true, false}) {
    // The liar's hash is the lower one, then the higher one.
    for (const std::uint8_t lie : {std::uint8_t{1}, std::uint8_t{250}}) {
      Fixture fixture([](Options& options) { options.policy.min_replication = 3; });
      fixture.mesh.hold(2, 0, true, 200);
      if (!saw_it_before) fixture.mesh.hold(3, 0, true, lie);
      Room room{.free_bytes = 1'000'000, .is_busy = true};
      fixture.core->start(Instant{});
      run_until(*fixture.core, fixture.mesh.view, Instant{seconds(415)}, room);
      fixture.mesh.hold(3, 0, true, lie);
      std::vector<BlobHash> blobs;
      for (const Action& action : fixture.run(seconds(500))) {
        const auto* fetch = std::get_if<FetchExpert>(&action);
        if (fetch != nullptr && fetch->key.expert == 0) blobs.push_back(fetch->blob);
      }
      if (saw_it_before) {
        EXPECT_THAT(blobs, ElementsAre(blob(200)));
      } else {
        EXPECT_THAT(blobs, IsEmpty());
        EXPECT_EQ(fixture.core->findings().disputed, 1U);
      }
    }
  }
}

TEST(Repair, WhoeverSaysAgainAndAgainThatItLeavesBringsNoMorePasses) {
  for (const int leavers : {1, 30}) {
    Fixture fixture([](Options& options) { options.max_admissions = 0; });
    fixture.core->start(Instant{});
    fixture.run(seconds(415));
    const auto before = fixture.core->totals().passes;
    for (int second = 416; second < 416 + 80; ++second) {
      fixture.core->on_leaving(Instant{seconds(second)},
                               address(static_cast<std::uint8_t>(2 + second % leavers)));
      fixture.run(seconds(second));
    }
    const auto passes = fixture.core->totals().passes - before;
    // One, and the regular one; of many, one in an eighth of the interval.
    EXPECT_LE(passes, leavers == 1 ? 2U : 8U);
    EXPECT_GE(passes, 1U);
  }
}

TEST(Repair, FetchesAtOnceAreBoundedWhereExpertsAreCountedToo) {
  Fixture fixture([](Options& options) {
    options.max_admissions = 10;
    options.fetches_max = 3;
  });
  for (ExpertIndex e = 0; e < 10; ++e) fixture.mesh.hold(2, e);
  fixture.mesh.change(3, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.core->start(Instant{});
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(415))), ElementsAre(0U, 1U, 2U));
  fixture.core->on_fetched(Instant{seconds(415)}, {"m", 0, 0}, std::uint64_t{10});
  fixture.mesh.hold(kSelf, 0);
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(416))), ElementsAre(3U));
}

TEST(Repair, RowWithoutRoomWaitsAtTheFrontUntilThereIsSome) {
  Fixture fixture;
  for (ExpertIndex e = 0; e < 3; ++e) fixture.mesh.hold(2, e);
  fixture.mesh.change_all([](auto& provider) { provider.expert_bytes["m"] = 400; });
  fixture.mesh.change(3, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.core->start(Instant{});
  EXPECT_THAT(
      run_until(*fixture.core, fixture.mesh.view, Instant{seconds(415)}, {.free_bytes = 399}),
      IsEmpty());
  EXPECT_THAT(Fixture::fetched(fixture.run(seconds(417))), ElementsAre(0U, 1U));
}

TEST(Repair, TickLooksAtNoMoreThanItsRows) {
  Fixture fixture;
  for (ExpertIndex e = 0; e < 200; ++e) fixture.mesh.hold(2, e);
  fixture.mesh.change(3, [](auto& other) { other.repair_free_bytes.reset(); });
  fixture.core->start(Instant{});
  const Room busy{.free_bytes = 1'000'000, .is_busy = true};
  EXPECT_THAT(run_until(*fixture.core, fixture.mesh.view, Instant{seconds(415)}, busy), IsEmpty());
  // Others took them meanwhile: all but the last.
  for (ExpertIndex e = 0; e < 199; ++e) fixture.mesh.hold(3, e);
  Instant now{seconds(416)};
  std::size_t ticks = 0;
  Outbox out;
  while (out.empty() && ticks < 10) {
    ++ticks;
    fixture.core->on_tick(now, fixture.mesh.view, kRoom, out);
  }
  EXPECT_EQ(ticks, 199 / Repair::kRowsPerTick + 1);
  EXPECT_THAT(Fixture::fetched(out), ElementsAre(199U));
}

TEST(Repair, StoppedCoreCancelsWhatItHasAndBeginsNothing) {
  Fixture fixture;
  fixture.mesh.hold(2, 0);
  fixture.core->start(Instant{});
  ASSERT_EQ(fixture.run(seconds(415)).size(), 1U);
  Outbox out;
  fixture.core->stop(out);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<CancelFetch>(out[0]));
  EXPECT_FALSE(fixture.core->next_deadline());
  fixture.core->on_fetched(Instant{seconds(416)}, {"m", 0, 0}, std::uint64_t{1});
  EXPECT_EQ(fixture.core->totals().admitted, 0U);
}

}  // namespace
}  // namespace tenzro::repair
