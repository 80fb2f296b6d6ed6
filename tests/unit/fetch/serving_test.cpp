// Serving: what peers are answered, and what they are not given.
#include "tenzro/fetch/serving.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenzro::fetch {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

struct ServingWorld {
  explicit ServingWorld(const ServingOptions& options = {}) : serving(options, ids) {}

  /// What came of a request: a store operation, a reply or a refusal.
  ServingAction ask(const BufferRef& bytes, std::uint8_t peer = 1,
                    Admission admission = Admission::admitted) {
    ServingOutbox out;
    EndpointId from{};
    from.fill(peer);
    serving.on_request(now, {PeerRequestId{++last}, from, "", wire::Protocol::blob, bytes},
                       admission, out);
    EXPECT_EQ(out.size(), 1U);
    return out.at(0);
  }

  ServingAction ask(std::uint64_t offset, std::uint32_t length, std::uint8_t peer = 1) {
    return ask(wire::encode_blob_request({.offset = offset, .length = length}), peer);
  }

  std::optional<wire::BlobReply> answer(JobId id, const work::StoreResult& result,
                                        std::uint32_t length) {
    ServingOutbox out;
    serving.on_store_done(id, result, out);
    if (out.empty()) return std::nullopt;
    return read(out.at(0), length);
  }

  static std::optional<wire::BlobReply> read(const ServingAction& action, std::uint32_t length) {
    const auto* reply = std::get_if<work::SendReply>(&action);
    if (reply == nullptr) return std::nullopt;
    std::string bytes;
    for (const BufferRef& part : reply->reply) bytes += part.text();
    const auto decoded = wire::decode_blob_reply(BufferRef::copy_of(bytes), {.length = length});
    EXPECT_TRUE(decoded);
    return *decoded;
  }

  work::JobIds ids;
  Serving serving;
  Instant now{seconds(100)};
  std::uint64_t last = 0;
};

JobId job_of(const ServingAction& action) {
  return std::get<work::Store>(action).id;
}

TEST(Serving, RangeIsReadAndSentWithTheSize) {
  ServingWorld world;
  const ServingAction action = world.ask(3, 4);
  const auto& read = std::get<work::ReadBlobRange>(std::get<work::Store>(action).op);
  EXPECT_EQ(read.offset, 3U);
  EXPECT_EQ(read.length, 4U);
  const auto reply =
      world.answer(job_of(action), work::BlobRange{BufferRef::copy_of("3456"), 10}, 4);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, wire::BlobStatus::ok);
  EXPECT_EQ(reply->size_bytes, 10U);
  EXPECT_EQ(reply->bytes.text(), "3456");
  EXPECT_EQ(world.serving.totals().bytes_sent, 4U);
}

TEST(Serving, SizeAloneIsAnswered) {
  ServingWorld world;
  const auto reply = world.answer(job_of(world.ask(0, 0)), work::BlobRange{{}, 10}, 0);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->size_bytes, 10U);
}

TEST(Serving, FailuresAreTold) {
  ServingWorld world;
  const auto status_of = [&world](ErrorCode code) {
    return world.answer(job_of(world.ask(0, 4)), fail(code, "/secret/path", "broke"), 4)->status;
  };
  EXPECT_EQ(status_of(ErrorCode::not_found), wire::BlobStatus::not_found);
  EXPECT_EQ(status_of(ErrorCode::busy), wire::BlobStatus::busy);
  EXPECT_EQ(status_of(ErrorCode::invalid_params), wire::BlobStatus::error);
  const auto unreadable =
      world.answer(job_of(world.ask(0, 4)), fail(ErrorCode::io, "/secret/path", "broke"), 4);
  EXPECT_EQ(unreadable->status, wire::BlobStatus::error);
  EXPECT_THAT(unreadable->error, Not(HasSubstr("secret")));
}

TEST(Serving, WhatIsNoRequestEndsTheStream) {
  ServingWorld world;
  EXPECT_TRUE(std::holds_alternative<work::RefuseRequest>(world.ask(BufferRef{})));
  const BufferRef whole = wire::encode_blob_request({});
  EXPECT_TRUE(
      std::holds_alternative<work::RefuseRequest>(world.ask(whole.slice(0, whole.size() - 1))));
  EXPECT_EQ(world.serving.totals().refused, 2U);
}

TEST(Serving, AnotherVersionIsAnsweredWithASentence) {
  ServingWorld world;
  const auto reply = ServingWorld::read(world.ask(BufferRef::copy_of("\x09more")), 0);
  ASSERT_TRUE(reply);
  EXPECT_THAT(reply->error, HasSubstr("version 9"));
}

TEST(Serving, UnknownFeaturesAreAnsweredWithASentence) {
  ServingWorld world;
  const auto reply = ServingWorld::read(world.ask(BufferRef::copy_of("\x01\x03more")), 0);
  ASSERT_TRUE(reply);
  EXPECT_THAT(reply->error, HasSubstr("features that this node lacks: 3"));
}

TEST(Serving, StrangersGetASentenceAndNoBytes) {
  ServingWorld world;
  const auto reply = ServingWorld::read(
      world.ask(wire::encode_blob_request({.length = 4}), 1, Admission::refused), 4);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, wire::BlobStatus::error);
  EXPECT_THAT(reply->error, HasSubstr("no others"));
}

TEST(Serving, WhatIsNotToBeHadNowIsBusyAndNotRead) {
  ServingWorld world;
  const auto reply = ServingWorld::read(
      world.ask(wire::encode_blob_request({.length = 4}), 1, Admission::later), 4);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, wire::BlobStatus::busy);
  EXPECT_EQ(world.serving.totals().busy, 1U);
}

TEST(Serving, BeyondTheReadsAtOnceItIsBusy) {
  ServingWorld world({.reads_max = 3, .peer_reads_max = 2});
  const ServingAction first = world.ask(0, 4, 1);
  job_of(world.ask(0, 4, 1));
  EXPECT_EQ(ServingWorld::read(world.ask(0, 4, 1), 4)->status, wire::BlobStatus::busy);
  job_of(world.ask(0, 4, 2));
  EXPECT_EQ(ServingWorld::read(world.ask(0, 4, 3), 4)->status, wire::BlobStatus::busy);
  EXPECT_EQ(world.serving.totals().busy, 2U);
  world.answer(job_of(first), work::BlobRange{BufferRef::copy_of("0123"), 10}, 4);
  job_of(world.ask(0, 4, 3));
}

TEST(Serving, BeyondTheRateItIsBusy) {
  ServingWorld world({.send_bytes_per_s = wire::kBlobRangeBytesMax});
  const auto all = static_cast<std::uint32_t>(wire::kBlobRangeBytesMax);
  job_of(world.ask(0, all));
  EXPECT_EQ(ServingWorld::read(world.ask(0, 1), 1)->status, wire::BlobStatus::busy);
  world.now = world.now + seconds(1);
  job_of(world.ask(0, all));
}

TEST(Serving, CancelledRequestGetsNoReply) {
  ServingWorld world;
  const ServingAction action = world.ask(0, 4);
  world.serving.on_cancelled(PeerRequestId{1});
  EXPECT_FALSE(world.answer(job_of(action), work::BlobRange{BufferRef::copy_of("0123"), 10}, 4));
  world.serving.on_cancelled(PeerRequestId{99});
  EXPECT_FALSE(world.answer(JobId{99}, work::BlobRange{}, 0));
}

}  // namespace
}  // namespace tenzro::fetch
