// A source that has an HTTP server and no address: asked there, and judged like any other.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"

#include "fetch_world.hpp"

namespace tenzro::fetch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// A world whose source 1 is asked over HTTP.
struct HttpWorld {
  explicit HttpWorld(std::string blob) : text(std::move(blob)), hash(crypto::blake3(text)) {}

  void start() {
    Outbox out;
    const Source source{FetchWorld::id_of(1), {}, "http://10.0.0.1:8545"};
    ASSERT_TRUE(world.fetches.start(world.now, RequestId{7}, hash, {source}, 0, out));
    run(std::move(out));
  }

  /// Answers every download and store operation until nothing is left.
  void run(Outbox out) {
    std::deque<Action> left(std::make_move_iterator(out.begin()),
                            std::make_move_iterator(out.end()));
    while (!left.empty()) {
      const Action action = std::move(left.front());
      left.pop_front();
      Outbox more;
      if (const auto* download = std::get_if<work::Download>(&action)) {
        urls.push_back(download->url);
        EXPECT_EQ(download->credential, work::Credential::node_signature);
        const work::Downloaded answered = answer ? answer(*download) : usual(*download);
        world.fetches.on_downloaded(world.now, download->id, answered, more);
      } else if (const auto* store = std::get_if<work::Store>(&action)) {
        world.fetches.on_store_done(world.now, store->id, world.run(store->op), more);
      } else if (const auto* done = std::get_if<Finished>(&action)) {
        finished.push_back(*done);
      }
      for (Action& each : more) left.push_back(std::move(each));
      if (left.empty() && world.fetches.next_deadline()) {
        Outbox ticked;
        world.now = std::max(world.now, *world.fetches.next_deadline());
        world.fetches.on_tick(world.now, ticked);
        for (Action& each : ticked) left.push_back(std::move(each));
      }
    }
  }

  work::Downloaded usual(const work::Download& download) {
    const std::size_t bytes = std::min(download.room.size(), text.size() - download.offset);
    std::memcpy(download.room.data(), text.data() + download.offset, bytes);
    return {.status = 206, .received = bytes, .first = download.offset, .file_bytes = text.size()};
  }

  FetchWorld world;
  std::string text;
  BlobHash hash;
  std::function<work::Downloaded(const work::Download&)> answer;
  std::vector<std::string> urls;
  std::vector<Finished> finished;
};

TEST(HttpSource, GivesTheBlobInRanges) {
  HttpWorld http(FetchWorld::text_of(30));
  http.start();
  ASSERT_THAT(http.finished, SizeIs(1));
  EXPECT_EQ(http.finished[0].size_bytes, 30U);
  EXPECT_EQ(http.world.blobs[http.hash], http.text);
  EXPECT_THAT(http.urls, SizeIs(9));  // its size, then eight pieces of four bytes
  EXPECT_EQ(http.urls[0], "http://10.0.0.1:8545/blob/" + to_hex(http.hash));
}

TEST(HttpSource, ThatIsBusyOrBreaksOffIsAskedAgain) {
  HttpWorld http(FetchWorld::text_of(30));
  int calls = 0;
  http.answer = [&](const work::Download& download) -> work::Downloaded {
    ++calls;
    if (calls == 1 || calls == 4) return {.status = 503};
    work::Downloaded downloaded = http.usual(download);
    if (calls == 6) return {.status = 206, .received = 1, .file_bytes = 30, .failure = "reset"};
    return downloaded;
  };
  http.start();
  ASSERT_THAT(http.finished, SizeIs(1));
  EXPECT_EQ(http.finished[0].size_bytes, 30U) << http.finished[0].size_bytes.error().message();
}

TEST(HttpSource, ThatLacksItRefusesOrLiesIsNamed) {
  const std::vector<std::pair<work::Downloaded, std::string>> cases = {
      {{.status = 404}, "does not have it"},
      {{.status = 403}, "answered HTTP status 403"},
      {{.failure = "connection refused"}, "connection refused"},
      {{.status = 206, .received = 1}, "gave less than was asked for"}};
  for (const auto& [downloaded, why] : cases) {
    HttpWorld http(FetchWorld::text_of(30));
    http.answer = [&, answer = downloaded](const work::Download&) { return answer; };
    http.start();
    ASSERT_THAT(http.finished, SizeIs(1)) << why;
    ASSERT_FALSE(http.finished[0].size_bytes) << why;
    EXPECT_THAT(http.finished[0].size_bytes.error().message(), HasSubstr(why));
  }
  HttpWorld lying(FetchWorld::text_of(30));
  lying.hash = crypto::blake3("something else");
  lying.start();
  ASSERT_THAT(lying.finished, SizeIs(1));
  ASSERT_FALSE(lying.finished[0].size_bytes);
  EXPECT_THAT(lying.finished[0].size_bytes.error().message(),
              HasSubstr("does not hash to its name"));
}

}  // namespace
}  // namespace tenzro::fetch
