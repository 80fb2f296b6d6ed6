// Blobs between nodes: two nodes whose calls and replies are carried by hand.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/wire/blob_message.hpp"
#include "tenzro/wire/uri.hpp"

#include "support/node_world.hpp"
#include "support/small_layer.hpp"

namespace tenzro::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// Two nodes and the wire between them. Whoever is called is found by its key; others cannot be
/// reached.
class Pair {
 public:
  explicit Pair(bool holder_serves_anyone = true)
      : fetcher(setup_of(1, false)), holder(setup_of(2, holder_serves_anyone)) {}

  static NodeWorld::Setup setup_of(std::uint8_t seed, bool serves_anyone) {
    NodeWorld::Setup setup;
    setup.seed = seed;
    if (serves_anyone) setup.options.execute = node::ExecuteRule::open;
    setup.options.fetch.piece_bytes = 100;  // several pieces even of a small expert
    return setup;
  }

  /// Until nothing moves any more.
  void settle() {
    bool has_moved = true;
    while (has_moved) {
      fetcher.settle();
      holder.settle();
      has_moved = carry(fetcher, holder);
      has_moved = carry(holder, fetcher) || has_moved;
    }
  }

  Result<rpc::Answer> call(rpc::Call call) {
    const RequestId request = fetcher.begin(std::move(call));
    settle();
    for (int i = 0; i < 1000; ++i) {
      if (auto answer = fetcher.answer(request)) return std::move(*answer);
      if (!fetcher.advance_to_deadline()) break;
      settle();
    }
    return fail(ErrorCode::internal, "", "was never answered");
  }

  NodeWorld fetcher;
  NodeWorld holder;
  std::size_t calls = 0;

 private:
  bool carry(NodeWorld& from, NodeWorld& to) {
    const std::vector<node::Action> actions = from.take_peer_actions();
    for (const node::Action& action : actions) {
      if (const auto* sent = std::get_if<work::SendCall>(&action)) {
        ++calls;
        if (sent->target.id != to.endpoint_id()) {
          from.deliver(sent->id, fail(ErrorCode::io, "", "no route to host"));
          continue;
        }
        const PeerRequestId request{++last_request_};
        open_.emplace(request, sent->id);
        to.deliver(
            {request, from.endpoint_id(), "10.0.0.1:9", sent->protocol, joined(sent->request)});
      } else if (const auto* reply = std::get_if<work::SendReply>(&action)) {
        to.deliver(open_.at(reply->id), work::CallReply{from.endpoint_id(), joined(reply->reply)});
      } else if (const auto* refusal = std::get_if<work::RefuseRequest>(&action)) {
        to.deliver(open_.at(refusal->id),
                   fail(ErrorCode::runtime, "", "the peer refused the request"));
      }
    }
    return !actions.empty();
  }

  static BufferRef joined(const std::vector<BufferRef>& parts) {
    std::string bytes;
    for (const BufferRef& part : parts) bytes += part.text();
    return BufferRef::copy_of(bytes);
  }

  std::map<PeerRequestId, PeerCallId> open_;
  std::uint64_t last_request_ = 0;
};

std::string uri_of(const BufferRef& blob, const EndpointId& hint) {
  return wire::format_blob_uri(crypto::blake3(blob.bytes())) + "?n=" + to_hex(hint);
}

Error error_of(const Result<rpc::Answer>& answer) {
  return answer ? Error{ErrorCode::internal, "", "no error"} : answer.error();
}

TEST(NodeBlobs, ExpertIsLoadedFromTheNodeThatTheUriNames) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  const BlobHash hash = crypto::blake3(blob.bytes());
  pair.holder.blobs()[hash] = blob;
  const std::string uri = uri_of(blob, pair.holder.endpoint_id());
  const auto row =
      expect_answer<rpc::ExpertRow>(pair.call(rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri}));
  EXPECT_EQ(row.source_uri, uri);
  EXPECT_GT(pair.calls, 3U);
  EXPECT_EQ(pair.fetcher.blobs().at(hash).text(), blob.text());
  EXPECT_EQ(pair.fetcher.leases(hash), 0U);
  EXPECT_EQ(pair.fetcher.node().fetch_totals().bytes_received, blob.size());
  EXPECT_EQ(pair.holder.node().serving_totals().bytes_sent, blob.size());
}

TEST(NodeBlobs, BlobThatIsHereIsNotFetched) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  pair.fetcher.blobs()[crypto::blake3(blob.bytes())] = blob;
  expect_answer<rpc::ExpertRow>(pair.call(
      rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri_of(blob, pair.holder.endpoint_id())}));
  EXPECT_EQ(pair.calls, 0U);
}

TEST(NodeBlobs, FetchedBlobThatIsNoExpertDoesNotStay) {
  Pair pair;
  const BufferRef blob = BufferRef::copy_of(std::string(500, 'x'));
  const BlobHash hash = crypto::blake3(blob.bytes());
  pair.holder.blobs()[hash] = blob;
  const Error error = error_of(pair.call(
      rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri_of(blob, pair.holder.endpoint_id())}));
  EXPECT_THAT(error.message(), StartsWith("expert load: "));
  EXPECT_FALSE(pair.fetcher.blobs().contains(hash));
}

TEST(NodeBlobs, FetchBlobGivesTheBytesAndKeepsThem) {
  Pair pair;
  const BufferRef blob = BufferRef::copy_of(std::string(500, 'x'));
  const BlobHash hash = crypto::blake3(blob.bytes());
  pair.holder.blobs()[hash] = blob;
  const rpc::FetchBlobCall call{uri_of(blob, pair.holder.endpoint_id())};
  EXPECT_EQ(expect_answer<rpc::FetchBlobAnswer>(pair.call(call)).bytes.text(), blob.text());
  EXPECT_TRUE(pair.fetcher.blobs().contains(hash));
  EXPECT_EQ(pair.fetcher.leases(hash), 0U);
}

TEST(NodeBlobs, NobodyToAskIsSaidAtOnce) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  const Error error = error_of(pair.call(rpc::ExpertLoadCall{
      .key = {"m", 3, 0}, .uri = wire::format_blob_uri(crypto::blake3(blob.bytes()))}));
  EXPECT_EQ(error.code, ErrorCode::infrastructure);
  EXPECT_THAT(error.message(), StartsWith("blob fetch: "));
  EXPECT_THAT(error.message(), HasSubstr("nor held by any provider known"));
}

TEST(NodeBlobs, SourceThatCannotBeReachedIsNamed) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  EndpointId nobody{};
  nobody.fill(0xAB);
  const Error error =
      error_of(pair.call(rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri_of(blob, nobody)}));
  EXPECT_EQ(error.code, ErrorCode::infrastructure);
  EXPECT_THAT(error.message(), StartsWith("blob fetch: "));
  EXPECT_THAT(error.message(), HasSubstr(to_hex(nobody) + " no route to host"));
}

TEST(NodeBlobs, SilentSourceFailsTheLoadWithinThirtySeconds) {
  NodeWorld world;
  const BufferRef blob = small_expert(2);
  EndpointId nobody{};
  nobody.fill(0xAB);
  const RequestId request =
      world.begin(rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri_of(blob, nobody)});
  world.settle();
  world.advance(std::chrono::seconds(29));
  world.settle();
  const auto answer = world.answer(request);
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(error_of(*answer).message(), StartsWith("blob fetch: "));
}

TEST(NodeBlobs, LyingSourceIsNamedAndItsBytesAreNotUsed) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  const BlobHash hash = crypto::blake3(blob.bytes());
  std::string forged(blob.text());
  forged.back() = static_cast<char>(forged.back() ^ 1);
  pair.holder.blobs()[hash] = BufferRef::copy_of(forged);
  const Error error = error_of(pair.call(
      rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri_of(blob, pair.holder.endpoint_id())}));
  EXPECT_THAT(error.message(), HasSubstr("does not hash to its name"));
  EXPECT_FALSE(pair.fetcher.blobs().contains(hash));
  ASSERT_THAT(pair.fetcher.notices(), SizeIs(1));
  EXPECT_THAT(pair.fetcher.notices()[0], HasSubstr(to_hex(pair.holder.endpoint_id())));
}

TEST(NodeBlobs, StrangersAreNotServed) {
  Pair pair(false);
  const BufferRef blob = small_expert(2);
  pair.holder.blobs()[crypto::blake3(blob.bytes())] = blob;
  const Error error = error_of(pair.call(
      rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri_of(blob, pair.holder.endpoint_id())}));
  EXPECT_THAT(error.message(), HasSubstr("to no others"));
  EXPECT_EQ(pair.holder.node().serving_totals().bytes_sent, 0U);
}

TEST(NodeBlobs, CancelledLoadStopsItsFetch) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  const BlobHash hash = crypto::blake3(blob.bytes());
  pair.holder.blobs()[hash] = blob;
  const RequestId request = pair.fetcher.begin(
      rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri_of(blob, pair.holder.endpoint_id())});
  pair.fetcher.settle();
  pair.fetcher.cancel(request);
  pair.settle();
  EXPECT_FALSE(pair.fetcher.blobs().contains(hash));
  EXPECT_FALSE(pair.fetcher.node().next_deadline());
  EXPECT_EQ(pair.fetcher.node().requests_in_progress(), 0U);
}

TEST(NodeBlobs, TwoLoadsOfOneBlobFetchItOnce) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  const BlobHash hash = crypto::blake3(blob.bytes());
  pair.holder.blobs()[hash] = blob;
  const std::string uri = uri_of(blob, pair.holder.endpoint_id());
  const RequestId first = pair.fetcher.begin(rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri});
  const RequestId second = pair.fetcher.begin(rpc::ExpertLoadCall{.key = {"m", 3, 1}, .uri = uri});
  pair.settle();
  for (const RequestId request : {first, second}) {
    const auto answer = pair.fetcher.answer(request);
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(answer->has_value()) << error_of(*answer).message();
  }
  EXPECT_EQ(pair.fetcher.node().fetch_totals().bytes_received, blob.size());
  EXPECT_EQ(pair.fetcher.leases(hash), 0U);
}

TEST(NodeBlobs, DamagedBlobOfTheStoreIsFetchedAnewByALoadOfIt) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  const BlobHash hash = crypto::blake3(blob.bytes());
  BufferRef damaged = BufferRef::copy_of(blob.bytes());
  damaged.mutable_bytes().back() ^= std::byte{1};
  pair.fetcher.blobs()[hash] = damaged;
  pair.holder.blobs()[hash] = blob;
  const std::string uri = uri_of(blob, pair.holder.endpoint_id());
  expect_answer<rpc::ExpertRow>(pair.call(rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri}));
  EXPECT_EQ(pair.fetcher.blobs().at(hash).text(), blob.text());
  EXPECT_EQ(pair.fetcher.leases(hash), 0U);
  EXPECT_EQ(pair.fetcher.node().requests_in_progress(), 0U);
}

TEST(NodeBlobs, DamagedBlobThatNobodyElseHasFailsTheLoadOnce) {
  Pair pair;
  const BufferRef blob = small_expert(2);
  const BlobHash hash = crypto::blake3(blob.bytes());
  BufferRef damaged = BufferRef::copy_of(blob.bytes());
  damaged.mutable_bytes().back() ^= std::byte{1};
  pair.fetcher.blobs()[hash] = damaged;
  const Error error = error_of(pair.call(
      rpc::ExpertLoadCall{.key = {"m", 3, 0}, .uri = uri_of(blob, pair.holder.endpoint_id())}));
  EXPECT_THAT(error.message(), StartsWith("blob fetch: "));
  EXPECT_FALSE(pair.fetcher.blobs().contains(hash)) << "it is out of the way";
  EXPECT_EQ(pair.fetcher.node().requests_in_progress(), 0U);
}

TEST(NodeBlobs, GarbageFromAPeerIsRefused) {
  NodeWorld world;
  world.deliver(
      {PeerRequestId{1}, EndpointId{}, "", wire::Protocol::blob, BufferRef::copy_of("\1")});
  world.settle();
  const auto actions = world.take_peer_actions();
  ASSERT_THAT(actions, SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<work::RefuseRequest>(actions[0]));
}

}  // namespace
}  // namespace tenzro::testing
