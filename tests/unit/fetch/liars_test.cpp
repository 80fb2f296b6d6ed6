// Sources that give other bytes than the blob's: the blob still comes where anybody honest has it,
// and whoever lied is named, nobody else.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

#include "fetch_world.hpp"

namespace tenzro::fetch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string spoilt(std::string blob, std::size_t at) {
  blob[at] = static_cast<char>(blob[at] ^ 1);
  return blob;
}

TEST(Liars, OnlySourceThatLiesFailsTheFetchAndIsNamed) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(40);
  const BlobHash hash = crypto::blake3(blob);
  world.forge(1, hash, spoilt(blob, 17));
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.settle();
  ASSERT_FALSE(world.finished.at(0).size_bytes);
  EXPECT_THAT(world.finished[0].size_bytes.error().message(),
              HasSubstr("what came does not hash to its name"));
  EXPECT_THAT(world.finished[0].size_bytes.error().message(), HasSubstr("0101010101"));
  EXPECT_THAT(world.liars, ElementsAre(FetchWorld::id_of(1)));
  EXPECT_THAT(world.partials, IsEmpty());
  EXPECT_EQ(world.fetches.totals().liars, 1U);
}

TEST(Liars, OneOfTwoIsNamedWhicheverItIs) {
  for (const std::uint8_t liar : {std::uint8_t{1}, std::uint8_t{2}}) {
    for (std::size_t at = 0; at < 80; at += 5) {
      SCOPED_TRACE("source " + std::to_string(liar) + ", byte " + std::to_string(at));
      FetchWorld world;
      const std::string blob = FetchWorld::text_of(80);
      const BlobHash hash = world.give({1, 2}, blob);
      world.forge(liar, hash, spoilt(blob, at));
      ASSERT_TRUE(world.start(7, hash, {1, 2}));
      world.settle();
      EXPECT_EQ(world.blobs[hash], blob);
      // The spoilt byte may have come from the honest one: then there was no lie.
      for (const EndpointId& named : world.liars) EXPECT_EQ(named, FetchWorld::id_of(liar));
      EXPECT_EQ(world.liars.size(), world.fetches.totals().mismatches == 0 ? 0U : 1U);
    }
  }
}

TEST(Liars, MajorityOfLiarsDoesNotWin) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(200);
  const BlobHash hash = world.give({3}, blob);
  for (const std::uint8_t liar : std::initializer_list<std::uint8_t>{1, 2, 4})
    world.forge(liar, hash, FetchWorld::text_of(200, 99));
  ASSERT_TRUE(world.start(7, hash, {1, 2, 3, 4}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_FALSE(world.liars.empty());
  for (const EndpointId& named : world.liars) EXPECT_NE(named, FetchWorld::id_of(3));
}

TEST(Liars, BadPieceFromDiskAccusesNobody) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(40);
  const BlobHash hash = world.give({1, 2}, blob);
  world.partials[hash] = {spoilt(blob, 3), std::vector<bool>(40, false)};
  for (std::size_t i = 0; i < 8; ++i) world.partials[hash].there[i] = true;
  ASSERT_TRUE(world.start(7, hash, {1, 2}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_EQ(world.fetches.totals().mismatches, 1U);
  EXPECT_THAT(world.liars, IsEmpty());
}

TEST(Liars, BadDiskAndOneSourceAccuseNobodyEither) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(40);
  const BlobHash hash = world.give({1}, blob);
  world.partials[hash] = {spoilt(blob, 3), std::vector<bool>(40, false)};
  for (std::size_t i = 0; i < 8; ++i) world.partials[hash].there[i] = true;
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_THAT(world.liars, IsEmpty());
}

TEST(Liars, InventedSizeIsFoundOutAndTheOthersAreHeard) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(40);
  const BlobHash hash = world.give({2, 3}, blob);
  world.forge(1, hash, FetchWorld::text_of(36));
  ASSERT_TRUE(world.start(7, hash, {1, 2, 3}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_THAT(world.liars, ElementsAre(FetchWorld::id_of(1)));
}

TEST(Liars, AuditorThatGoesAwayIsReplacedAndNotAccused) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(200);
  const BlobHash hash = world.give({1, 2, 3}, blob);
  world.forge(3, hash, FetchWorld::text_of(200, 5));
  ASSERT_TRUE(world.start(7, hash, {1, 2, 3}));
  while (world.fetches.totals().mismatches == 0) ASSERT_TRUE(world.step());
  const EndpointId auditor = world.sent.front().to;
  ASSERT_NE(auditor, FetchWorld::id_of(3)) << "it should be one of the honest, by their turn";
  world.peers[auditor].answer = [](const wire::BlobRequest&) {
    return std::optional<work::CallResult>(fail(ErrorCode::forbidden, "", "gone"));
  };
  world.run_out();
  EXPECT_EQ(world.blobs[hash], blob);
  for (const EndpointId& named : world.liars) EXPECT_EQ(named, FetchWorld::id_of(3));
}

/// Whoever lies, is silent, loses connections or is busy: with one honest source the blob comes;
/// nobody honest is ever named; the end always comes; nothing stays behind.
TEST(Liars, RandomMixturesNeverAccuseTheHonest) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng{seed};
    FetchWorld world;
    const std::string blob = FetchWorld::text_of(20 + prng.next() % 300);
    const BlobHash hash = world.give({1, 2, 3, 4}, blob);
    const auto honest = static_cast<std::uint8_t>(1 + prng.next() % 4);
    for (std::uint8_t number = 1; number <= 4; ++number) {
      if (number == honest) continue;
      const std::uint64_t kind = prng.next() % 5;
      if (kind == 0) world.forge(number, hash, spoilt(blob, prng.next() % blob.size()));
      if (kind == 1) world.forge(number, hash, FetchWorld::text_of(blob.size() + 4, 1));
      if (kind == 2) world.peers[FetchWorld::id_of(number)].is_silent = true;
      if (kind < 3) continue;
      world.peers[FetchWorld::id_of(number)].answer =
          [&prng, number](const wire::BlobRequest&) -> std::optional<work::CallResult> {
        const std::uint64_t dice = prng.next() % 4;
        if (dice == 0) return fail(ErrorCode::io, "", "connection lost");
        if (dice == 1)
          return FetchWorld::reply(FetchWorld::id_of(number), wire::BlobStatus::busy, 0, "");
        return std::nullopt;
      };
    }
    ASSERT_TRUE(world.start(7, hash, {1, 2, 3, 4}));
    world.run_out();
    ASSERT_EQ(world.finished.size(), 1U);
    EXPECT_EQ(world.blobs[hash], blob);
    for (const EndpointId& named : world.liars)
      EXPECT_NE(world.peers[named].blobs[hash], blob) << int{named[0]};
    EXPECT_EQ(world.fetches.in_progress(), 0U);
    EXPECT_THAT(world.sent, IsEmpty());
    EXPECT_THAT(world.partials, IsEmpty());
    EXPECT_EQ(world.leases[hash], 1U);
  }
}

}  // namespace
}  // namespace tenzro::fetch
