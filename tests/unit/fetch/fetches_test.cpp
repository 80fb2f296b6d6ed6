// Fetches: how a blob comes, how it goes on after a stop, and how it fails.
#include "tenzro/fetch/fetches.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch_world.hpp"

namespace tenzro::fetch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string message_of(const FetchWorld& world, std::size_t index = 0) {
  if (world.finished.size() <= index) return "not finished";
  const auto& size = world.finished[index].size_bytes;
  return size ? "finished well" : size.error().message();
}

TEST(Fetches, BlobComesInPiecesFromOneSource) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(30);
  const BlobHash hash = world.give({1}, blob);
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob);
  ASSERT_THAT(world.finished, SizeIs(1));
  EXPECT_THAT(world.finished[0].waiters, ElementsAre(RequestId{7}));
  EXPECT_EQ(world.finished[0].size_bytes, 30U);
  EXPECT_EQ(world.leases[hash], 1U);
  EXPECT_EQ(world.peers[FetchWorld::id_of(1)].ranges_asked, 8U);
  EXPECT_EQ(world.peers[FetchWorld::id_of(1)].pending_max, 4U);
  EXPECT_EQ(world.fetches.totals().bytes_received, 30U);
  EXPECT_EQ(world.fetches.in_progress(), 0U);
  EXPECT_FALSE(world.fetches.next_deadline());
}

TEST(Fetches, SourcesTakeTurns) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(400);
  const BlobHash hash = world.give({1, 2, 3}, blob);
  ASSERT_TRUE(world.start(7, hash, {1, 2, 3}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob);
  for (const std::uint8_t number : std::initializer_list<std::uint8_t>{1, 2, 3})
    EXPECT_GT(world.peers[FetchWorld::id_of(number)].ranges_asked, 20U) << int{number};
}

TEST(Fetches, EverySourceThatLacksTheBlobIsNamed) {
  FetchWorld world;
  const BlobHash hash = crypto::blake3("absent");
  ASSERT_TRUE(world.start(7, hash, {1, 2}));
  world.settle();
  EXPECT_THAT(message_of(world), HasSubstr("no source could give it"));
  EXPECT_THAT(message_of(world), HasSubstr(std::string(64, '1').replace(0, 64, "01010101")));
  EXPECT_THAT(message_of(world), HasSubstr("does not have it"));
  EXPECT_EQ(world.fetches.in_progress(), 0U);
}

TEST(Fetches, WithoutASourceThereIsNoFetch) {
  FetchWorld world;
  const Status refused = world.start(7, crypto::blake3("absent"), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_found);
  EXPECT_EQ(world.fetches.in_progress(), 0U);
}

TEST(Fetches, WaitersShareOneFetchAndItsSources) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(40);
  const BlobHash hash = world.give({2}, blob);
  ASSERT_TRUE(world.start(7, hash, {1}));
  ASSERT_TRUE(world.start(8, hash, {2}));
  world.settle();
  ASSERT_THAT(world.finished, SizeIs(1));
  EXPECT_THAT(world.finished[0].waiters, ElementsAre(RequestId{7}, RequestId{8}));
  EXPECT_TRUE(world.finished[0].size_bytes);
  EXPECT_EQ(world.leases[hash], 1U);
}

TEST(Fetches, CancelledWaiterIsNotNamedAndTheOthersGetTheirBlob) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(40));
  ASSERT_TRUE(world.start(7, hash, {1}));
  ASSERT_TRUE(world.start(8, hash, {1}));
  world.cancel(7);
  world.settle();
  ASSERT_THAT(world.finished, SizeIs(1));
  EXPECT_THAT(world.finished[0].waiters, ElementsAre(RequestId{8}));
}

TEST(Fetches, FetchNobodyWaitsForStopsAndCanGoOn) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(400);
  const BlobHash hash = world.give({1}, blob);
  ASSERT_TRUE(world.start(7, hash, {1}));
  for (int i = 0; i < 60; ++i) world.step();
  world.cancel(7);
  EXPECT_THAT(world.sent, IsEmpty());
  EXPECT_EQ(world.fetches.in_progress(), 0U);
  world.settle();
  EXPECT_THAT(world.finished, IsEmpty());
  EXPECT_FALSE(world.partials.at(hash).is_open);
  const std::size_t asked = world.peers[FetchWorld::id_of(1)].ranges_asked;
  EXPECT_LT(asked, 100U);
  ASSERT_TRUE(world.start(8, hash, {1}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_LT(world.peers[FetchWorld::id_of(1)].ranges_asked, 100U + 16U);
  EXPECT_GT(world.fetches.totals().bytes_resumed, 60U);
}

TEST(Fetches, PartOfAPieceOnDiskIsFetchedAnew) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(12);
  const BlobHash hash = world.give({1}, blob);
  FetchWorld::Partial partial{blob, std::vector<bool>(12, false)};
  for (const std::size_t i : {0U, 1U, 2U, 3U, 4U, 5U}) partial.there[i] = true;
  world.partials[hash] = partial;
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_EQ(world.fetches.totals().bytes_resumed, 4U);
  EXPECT_EQ(world.peers[FetchWorld::id_of(1)].ranges_asked, 2U);
}

TEST(Fetches, BlobThatCameMeanwhileIsNotFetched) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(12));
  world.blobs[hash] = FetchWorld::text_of(12);
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.settle();
  EXPECT_TRUE(world.finished.at(0).size_bytes);
  EXPECT_EQ(world.peers[FetchWorld::id_of(1)].ranges_asked, 0U);
  EXPECT_EQ(world.leases[hash], 1U);
}

TEST(Fetches, LeaseOfAFetchThatWasLetGoIsReleased) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(4));
  ASSERT_TRUE(world.start(7, hash, {1}));
  while (world.stored.empty() || !std::holds_alternative<work::FinishPartial>(world.stored[0].op))
    ASSERT_TRUE(world.step());
  world.cancel(7);
  world.settle();
  EXPECT_EQ(world.leases[hash], 0U);
  EXPECT_THAT(world.finished, IsEmpty());
}

TEST(Fetches, SilentSourceIsLeftAndAnotherServes) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(100);
  const BlobHash hash = world.give({1, 2}, blob);
  world.peers[FetchWorld::id_of(1)].answer =
      [&world](const wire::BlobRequest& request) -> std::optional<work::CallResult> {
    if (request.length > 0) world.peers[FetchWorld::id_of(1)].is_silent = true;
    return std::nullopt;
  };
  ASSERT_TRUE(world.start(7, hash, {1, 2}));
  world.run_out();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_THAT(world.liars, IsEmpty());
  EXPECT_LE(world.now.since_start, seconds(100 + 25));
}

TEST(Fetches, NothingForTooLongFailsWithinTheLimitAndKeepsWhatCame) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(100));
  ASSERT_TRUE(world.start(7, hash, {1}));
  for (int i = 0; i < 20; ++i) world.step();
  world.peers[FetchWorld::id_of(1)].is_silent = true;
  world.run_out();
  EXPECT_THAT(message_of(world), HasSubstr("did not answer in time"));
  EXPECT_LT(world.now.since_start, seconds(100 + 30));
  EXPECT_TRUE(world.partials.contains(hash));
  EXPECT_THAT(world.sent, IsEmpty());
}

TEST(Fetches, UnreachableSourcesFailAtOnce) {
  FetchWorld world;
  for (const std::uint8_t number : std::initializer_list<std::uint8_t>{1, 2}) {
    world.peers[FetchWorld::id_of(number)].answer = [](const wire::BlobRequest&) {
      return std::optional<work::CallResult>(fail(ErrorCode::io, "", "no route to host"));
    };
  }
  ASSERT_TRUE(world.start(7, crypto::blake3("absent"), {1, 2}));
  world.run_out();
  EXPECT_THAT(message_of(world), HasSubstr("no route to host"));
  EXPECT_EQ(world.now.since_start, seconds(100));
}

TEST(Fetches, ConnectionThatIsLostOnceIsTriedAgain) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(100);
  const BlobHash hash = world.give({1}, blob);
  int losses = 4;  // all that are in flight together: one failure
  world.peers[FetchWorld::id_of(1)].answer =
      [&losses](const wire::BlobRequest& request) -> std::optional<work::CallResult> {
    if (request.length == 0 || losses == 0) return std::nullopt;
    --losses;
    return fail(ErrorCode::io, "", "connection lost");
  };
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.run_out();
  EXPECT_EQ(world.blobs[hash], blob);
}

TEST(Fetches, SourceThatFailsInARowIsDropped) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(100));
  world.peers[FetchWorld::id_of(1)].answer =
      [](const wire::BlobRequest& request) -> std::optional<work::CallResult> {
    if (request.length == 0) return std::nullopt;
    return fail(ErrorCode::io, "", "connection lost");
  };
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.run_out();
  EXPECT_THAT(message_of(world), HasSubstr("connection lost"));
  EXPECT_LT(world.now.since_start, seconds(102));
}

TEST(Fetches, BusySourceIsAskedAgainLaterAndNotDropped) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(40);
  const BlobHash hash = world.give({1}, blob);
  int refusals = 20;
  world.peers[FetchWorld::id_of(1)].answer =
      [&refusals](const wire::BlobRequest&) -> std::optional<work::CallResult> {
    if (refusals == 0) return std::nullopt;
    --refusals;
    return FetchWorld::reply(FetchWorld::id_of(1), wire::BlobStatus::busy, 0, "");
  };
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.settle();
  EXPECT_THAT(world.sent, IsEmpty());  // it is left alone for a while
  world.run_out();
  // At most two seconds a pause: the rest of the twenty would take longer than the stall limit.
  EXPECT_THAT(message_of(world), HasSubstr("is busy"));
  refusals = 3;
  ASSERT_TRUE(world.start(8, hash, {1}));
  world.run_out();
  EXPECT_EQ(world.blobs[hash], blob);
}

TEST(Fetches, AnswersThatBreakTheProtocolDropTheSourceAtOnce) {
  const auto bad_answers = std::vector<std::function<work::CallResult(const wire::BlobRequest&)>>{
      [](const auto&) {
        return work::CallReply{FetchWorld::id_of(1), BufferRef::copy_of("x")};
      },
      [](const auto& request) {
        return FetchWorld::reply(FetchWorld::id_of(1), wire::BlobStatus::ok, 100,
                                 std::string(request.length + 1, 'x'));
      },
      [](const auto& request) {
        return FetchWorld::reply(FetchWorld::id_of(1), wire::BlobStatus::ok, 99,
                                 std::string(request.length, 'x'));
      },
      [](const auto& request) {
        return FetchWorld::reply(FetchWorld::id_of(9), wire::BlobStatus::ok, 100,
                                 std::string(request.length, 'x'));
      },
      [](const auto&) {
        return FetchWorld::reply(FetchWorld::id_of(1), wire::BlobStatus::not_found, 0, "");
      },
      [](const auto&) {
        return work::CallReply{FetchWorld::id_of(1), wire::encode_blob_error("go away")};
      },
      [](const auto&) { return fail(ErrorCode::forbidden, "", "another key"); }};
  for (std::size_t i = 0; i < bad_answers.size(); ++i) {
    SCOPED_TRACE(i);
    FetchWorld world;
    const std::string blob = FetchWorld::text_of(100);
    const BlobHash hash = world.give({1, 2}, blob);
    world.peers[FetchWorld::id_of(1)].answer =
        [&](const wire::BlobRequest& request) -> std::optional<work::CallResult> {
      if (request.length == 0) return std::nullopt;
      return bad_answers[i](request);
    };
    ASSERT_TRUE(world.start(7, hash, {1, 2}));
    world.settle();
    EXPECT_EQ(world.blobs[hash], blob);
    EXPECT_EQ(world.fetches.totals().sources_dropped, 1U);
    EXPECT_LE(world.peers[FetchWorld::id_of(1)].ranges_asked, 4U);
  }
}

TEST(Fetches, SizesNoBlobHasDropTheSource) {
  for (const std::uint64_t size : {std::uint64_t{0}, UINT64_MAX, (std::uint64_t{16} << 30U) + 1}) {
    FetchWorld world;
    const std::string blob = FetchWorld::text_of(10);
    const BlobHash hash = world.give({1, 2}, blob);
    world.peers[FetchWorld::id_of(1)].answer = [size](const wire::BlobRequest&) {
      return std::optional(FetchWorld::reply(FetchWorld::id_of(1), wire::BlobStatus::ok, size, ""));
    };
    ASSERT_TRUE(world.start(7, hash, {1, 2}));
    world.settle();
    EXPECT_EQ(world.blobs[hash], blob);
  }
}

TEST(Fetches, NoRoomFailsBeforeTheFirstByteWithTheNumbers) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(100));
  world.store_fault = [](const work::StoreOp& op) -> Status {
    if (!std::holds_alternative<work::OpenPartial>(op)) return {};
    return fail(ErrorCode::no_space, "disk budget", "5 of 20 bytes are used, 100 more do not fit");
  };
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.settle();
  EXPECT_THAT(message_of(world), HasSubstr("100 more do not fit"));
  EXPECT_EQ(world.finished[0].size_bytes.error().code, ErrorCode::no_space);
  EXPECT_EQ(world.peers[FetchWorld::id_of(1)].ranges_asked, 0U);
}

TEST(Fetches, InventedSizeThatDoesNotFitLosesNobodyTheBlob) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(100);
  const BlobHash hash = world.give({2}, blob);
  world.forge(1, hash, std::string(5000, 'x'));
  world.store_fault = [](const work::StoreOp& op) -> Status {
    const auto* open = std::get_if<work::OpenPartial>(&op);
    if (open == nullptr || open->size_bytes < 1000) return {};
    return fail(ErrorCode::no_space, "disk budget", "is too small");
  };
  ASSERT_TRUE(world.start(7, hash, {1, 2}));
  world.settle();
  EXPECT_EQ(world.blobs[hash], blob) << message_of(world);
}

TEST(Fetches, DiskThatFillsUpEndsTheFetchAndLeavesNothing) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(100));
  int writes = 0;
  world.store_fault = [&writes](const work::StoreOp& op) -> Status {
    if (!std::holds_alternative<work::WritePartial>(op) || ++writes < 5) return {};
    return fail(ErrorCode::no_space, "disk", "0 of 100 bytes are free");
  };
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.settle();
  EXPECT_EQ(world.finished.at(0).size_bytes.error().code, ErrorCode::no_space);
  EXPECT_THAT(message_of(world), HasSubstr("0 of 100 bytes are free"));
  EXPECT_THAT(world.partials, IsEmpty());
  EXPECT_THAT(world.sent, IsEmpty());
  EXPECT_FALSE(world.fetches.next_deadline());
}

TEST(Fetches, RangesThatMeetABusySourceTogetherPauseItOnce) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(40);
  const BlobHash hash = world.give({1}, blob);
  int refusals = 4;
  world.peers[FetchWorld::id_of(1)].answer =
      [&refusals](const wire::BlobRequest& request) -> std::optional<work::CallResult> {
    if (request.length == 0 || refusals == 0) return std::nullopt;
    --refusals;
    return FetchWorld::reply(FetchWorld::id_of(1), wire::BlobStatus::busy, 0, "");
  };
  const Instant begin = world.now;
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.run_out();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_EQ(refusals, 0);
  EXPECT_LE(world.now - begin, milliseconds(100));
}

TEST(Fetches, StoreThatIsBusyIsWrittenToLater) {
  FetchWorld world;
  const std::string blob = FetchWorld::text_of(100);
  const BlobHash hash = world.give({1}, blob);
  int refusals = 10;
  world.store_fault = [&refusals](const work::StoreOp& op) -> Status {
    if (!std::holds_alternative<work::WritePartial>(op) || refusals == 0) return {};
    --refusals;
    return fail(ErrorCode::busy, "store", "has too much to do");
  };
  ASSERT_TRUE(world.start(7, hash, {1}));
  world.run_out();
  EXPECT_EQ(world.blobs[hash], blob) << message_of(world);
}

TEST(Fetches, BlobLargerThanAWaiterTakesIsRefusedForThatWaiterAlone) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(100));
  ASSERT_TRUE(world.start(7, hash, {1}, 99));
  ASSERT_TRUE(world.start(8, hash, {1}, 100));
  world.settle();
  ASSERT_THAT(world.finished, SizeIs(2));
  EXPECT_THAT(world.finished[0].waiters, ElementsAre(RequestId{7}));
  EXPECT_THAT(message_of(world, 0), HasSubstr("has 100 bytes, more than the 99"));
  EXPECT_THAT(world.finished[1].waiters, ElementsAre(RequestId{8}));
  EXPECT_TRUE(world.finished[1].size_bytes);
}

TEST(Fetches, FetchesBeyondTheMaximumWaitForTheirTurn) {
  FetchWorld world;
  std::vector<BlobHash> hashes;
  for (std::uint8_t i = 0; i < 20; ++i)
    hashes.push_back(world.give({1}, FetchWorld::text_of(50, i)));
  for (std::uint64_t i = 0; i < hashes.size(); ++i) ASSERT_TRUE(world.start(i, hashes[i], {1}));
  EXPECT_EQ(world.sent.size(), 8U);  // the sizes of those whose turn it is
  world.settle();
  EXPECT_EQ(world.blobs.size(), 20U);
}

TEST(Fetches, WaitingFetchBeginsWhenOneFailsWithoutAnAnswer) {
  FetchWorld world;
  world.peers[FetchWorld::id_of(1)].is_silent = true;
  for (std::uint8_t i = 0; i < 8; ++i)
    ASSERT_TRUE(world.start(i, crypto::blake3(FetchWorld::text_of(9, i)), {1}));
  const BlobHash hash = world.give({2}, FetchWorld::text_of(50));
  ASSERT_TRUE(world.start(8, hash, {2}));
  world.settle();
  EXPECT_FALSE(world.blobs.contains(hash));
  world.run_out();
  EXPECT_TRUE(world.blobs.contains(hash));
  EXPECT_EQ(world.finished.size(), 9U);
}

TEST(Fetches, TooManyAreRefused) {
  FetchWorld world;
  world.peers[FetchWorld::id_of(1)].is_silent = true;
  std::size_t refused = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const BlobHash hash = crypto::blake3(std::to_string(i));
    const Status status = world.start(i, hash, {1});
    if (status) continue;
    ++refused;
    EXPECT_EQ(status.error().code, ErrorCode::busy);
  }
  EXPECT_EQ(refused, 100U - 8 - 64);
}

TEST(Fetches, PiecesInFlightOfAllFetchesAreBounded) {
  FetchWorld world;
  for (std::uint8_t i = 0; i < 8; ++i) {
    const BlobHash hash = world.give({1, 2, 3, 4}, FetchWorld::text_of(400, i));
    ASSERT_TRUE(world.start(i, hash, {1, 2, 3, 4}));
  }
  std::size_t most = 0;
  while (world.step()) {
    std::size_t open = 0;
    for (const auto& [id, peer] : world.peers) open += peer.pending;
    for (const auto& operation : world.stored)
      open += std::holds_alternative<work::WritePartial>(operation.op) ? 1U : 0U;
    most = std::max(most, open);
  }
  EXPECT_EQ(most, 16U);
  EXPECT_EQ(world.blobs.size(), 8U);
}

TEST(Fetches, RateLimitPacesTheRequests) {
  Options options = FetchWorld::small();
  options.receive_bytes_per_s = 100;
  FetchWorld world(options);
  const std::string blob = FetchWorld::text_of(600);
  const BlobHash hash = world.give({1, 2}, blob);
  ASSERT_TRUE(world.start(7, hash, {1, 2}));
  world.settle();
  EXPECT_LE(world.fetches.totals().bytes_received, 100U);  // what one second holds
  world.run_out();
  EXPECT_EQ(world.blobs[hash], blob);
  EXPECT_GE(world.now.since_start, seconds(105));  // 500 bytes at 100 a second
  EXPECT_LE(world.now.since_start, seconds(105) + milliseconds(100));
}

TEST(Fetches, ResultsOfThePastAreIgnored) {
  FetchWorld world;
  const BlobHash hash = world.give({1}, FetchWorld::text_of(40));
  ASSERT_TRUE(world.start(7, hash, {1}));
  const FetchWorld::SentCall call = world.sent.at(0);
  world.cancel(7);
  Outbox out;
  EXPECT_FALSE(world.fetches.on_peer_reply(world.now, call.id, world.usual_answer(call), out));
  world.fetches.on_store_done(world.now, JobId{999}, work::Saved{}, out);
  world.fetches.on_cancel(world.now, RequestId{999}, out);
  EXPECT_THAT(out, IsEmpty());
}

}  // namespace
}  // namespace tenzro::fetch
