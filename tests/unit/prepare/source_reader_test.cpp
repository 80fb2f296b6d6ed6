// Ranges from a web server that answers as the test says: what is asked for, when again, and when
// not.
#include "source_reader.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenzro::prepare {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string text_of(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i)
    text.push_back(static_cast<char>((i * 31 + i / 7) & 0xFFU));
  return text;
}

SourceOptions small(const std::string& hub_url = "") {
  SourceOptions options;
  options.hub_url = hub_url;
  options.range_bytes = 10;
  options.ranges_max = 3;
  return options;
}

/// A reader, and a server whose answers can be replaced call by call.
struct World {
  explicit World(const SourceOptions& options = small(),
                 const std::string& source = "https://files.example/repo")
      : reader(*SourceAddress::parse(source, PlainHttp::loopback_only), options, jobs, calls,
               prng) {}

  ReadId read(std::uint64_t offset, std::uint64_t length, bool allow_short = false,
              const std::string& name = "a") {
    Outbox out;
    const ReadId id = reader.read(now, {name, offset, length, allow_short}, out);
    take(std::move(out));
    return id;
  }

  void take(Outbox out) {
    for (Action& action : out) {
      if (auto* download = std::get_if<work::Download>(&action)) {
        sent.push_back(std::move(*download));
        urls.push_back(sent.back().url);
        in_flight_max = std::max(in_flight_max, sent.size());
      } else if (const auto* cancelled = std::get_if<work::CancelCall>(&action)) {
        std::erase_if(sent, [&](const auto& each) { return each.id == cancelled->id; });
        ++cancels;
      }
    }
  }

  work::Downloaded usual(const work::Download& download) {
    return give(download, download.room.size());
  }

  /// So many bytes of what is asked for, and then it broke off.
  work::Downloaded broken(const work::Download& download, std::size_t bytes) {
    work::Downloaded downloaded = give(download, bytes);
    downloaded.failure = "the connection was reset";
    return downloaded;
  }

  work::Downloaded give(const work::Download& download, std::size_t bytes) {
    if (download.offset >= file.size())
      return {.status = 416, .file_bytes = file.size(), .version = version};
    bytes = std::min<std::size_t>(bytes, file.size() - download.offset);
    std::memcpy(download.room.data(), file.data() + download.offset, bytes);
    bytes_given += bytes;
    return {.status = 206,
            .received = bytes,
            .first = download.offset,
            .file_bytes = file.size(),
            .version = version};
  }

  void reply(const work::Download& download, const work::Downloaded& downloaded) {
    Outbox out;
    EXPECT_TRUE(reader.on_downloaded(now, download.id, downloaded, out));
    take(std::move(out));
  }

  work::Download pop() {
    work::Download download = std::move(sent.front());
    sent.pop_front();
    return download;
  }

  void tick() {
    Outbox out;
    reader.on_tick(now, out);
    take(std::move(out));
  }

  /// Answers everything, and lets time go on, until nothing is left to do.
  void run_out() {
    for (int round = 0; round < 1000; ++round) {
      while (!sent.empty()) {
        const work::Download download = pop();
        reply(download, answer ? answer(download) : usual(download));
      }
      const auto deadline = reader.next_deadline();
      if (!deadline) return;
      now = std::max(now, *deadline);
      tick();
    }
  }

  /// The one read that is done: its text, or "! " and why there is none.
  std::string outcome() {
    const std::vector<ReadDone> done = reader.take_done();
    if (done.size() != 1) return std::to_string(done.size()) + " reads are done";
    if (!done[0].bytes) return "! " + done[0].bytes.error().message();
    return std::string(done[0].bytes->bytes.text());
  }

  work::JobIds jobs;
  work::CallIds calls;
  Prng prng{5};
  SourceReader reader;
  Instant now{seconds(100)};
  std::string file = text_of(100);
  std::string version = "\"v1\"";
  std::function<work::Downloaded(const work::Download&)> answer;
  std::deque<work::Download> sent;
  std::vector<std::string> urls;
  std::size_t in_flight_max = 0;
  std::size_t cancels = 0;
  std::size_t bytes_given = 0;
};

TEST(SourceReader, ARangeComesInPiecesSideBySideAndNothingElseIsFetched) {
  World world;
  world.read(13, 64);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file.substr(13, 64));
  EXPECT_EQ(world.bytes_given, 64U);
  EXPECT_EQ(world.in_flight_max, 3U);
  EXPECT_EQ(world.urls[0], "https://files.example/repo/a");
  EXPECT_EQ(world.reader.bytes_read(), 64U);
  EXPECT_FALSE(world.reader.next_deadline());
}

TEST(SourceReader, EverySplitOfARangeGivesTheBytesOfTheFile) {
  for (std::uint64_t range_bytes = 1; range_bytes < 12; ++range_bytes) {
    SourceOptions options = small();
    options.range_bytes = range_bytes;
    World world(options);
    world.file = text_of(23);
    Prng prng(range_bytes);
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t offset = prng.below(23);
      const std::uint64_t length = prng.below(24 - offset);
      // Every other answer stops somewhere.
      world.answer = [&](const work::Download& download) {
        if (prng.below(2) == 0) return world.usual(download);
        return world.broken(download, 1 + prng.below(download.room.size()));
      };
      world.read(offset, length);
      world.run_out();
      EXPECT_EQ(world.outcome(), world.file.substr(offset, length)) << range_bytes;
    }
  }
}

TEST(SourceReader, AShortFileGivesWhatThereIsOrIsAnError) {
  World world;
  world.read(90, 50, true);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file.substr(90));
  world.read(200, 5, true);
  world.run_out();
  EXPECT_EQ(world.outcome(), "");
  world.read(90, 11);
  world.run_out();
  EXPECT_EQ(world.outcome(), "! a: is too short: 11 bytes at offset 90 are wanted, it has 100");
  World fresh;
  fresh.read(200, 5, true);
  fresh.run_out();
  EXPECT_EQ(fresh.outcome(), "");
}

TEST(SourceReader, WhatBrokeOffGoesOnWhereItStopped) {
  World world;
  world.read(0, 10);
  const work::Download first = world.pop();
  world.reply(first, world.broken(first, 7));
  EXPECT_THAT(world.sent, IsEmpty());  // not at once
  ASSERT_TRUE(world.reader.next_deadline());
  EXPECT_GE(*world.reader.next_deadline(), world.now + milliseconds(250));
  world.now = *world.reader.next_deadline();
  world.tick();
  ASSERT_THAT(world.sent, SizeIs(1));
  EXPECT_EQ(world.sent[0].offset, 7U);
  EXPECT_EQ(world.sent[0].room.size(), 3U);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file.substr(0, 10));
  EXPECT_EQ(world.bytes_given, 10U);
}

TEST(SourceReader, FailuresAreTriedAgainWithGrowingPausesAndThenGivenUp) {
  World world;
  std::vector<Instant> times;
  world.answer = [&](const work::Download&) {
    times.push_back(world.now);
    return work::Downloaded{.failure = "connection refused"};
  };
  world.read(0, 10);
  world.run_out();
  EXPECT_EQ(world.outcome(), "! a: given up after 6 attempts: connection refused");
  ASSERT_THAT(times, SizeIs(6));
  Duration longest = milliseconds(500);
  for (std::size_t i = 1; i < times.size(); ++i, longest *= 2) {
    EXPECT_GE(times[i] - times[i - 1], longest / 2) << i;
    EXPECT_LE(times[i] - times[i - 1], longest) << i;
  }
  EXPECT_FALSE(world.reader.next_deadline());
}

TEST(SourceReader, ATrickleBetweenFailuresIsGivenUpToo) {
  for (const bool gains : {false, true}) {
    SourceOptions options = small();
    options.range_bytes = 1U << 20U;
    World world(options);
    world.file = text_of(1U << 20U);
    world.read(0, 10);  // the file's size
    world.run_out();
    EXPECT_EQ(world.outcome(), world.file.substr(0, 10));
    std::size_t asked = 0;
    std::optional<Instant> broke_off;
    world.answer = [&](const work::Download& download) {
      if (broke_off) {
        EXPECT_GE(world.now - *broke_off, milliseconds(250));
      }
      broke_off = world.now;
      if (++asked % 2 == 0) return work::Downloaded{.failure = "connection refused"};
      return world.broken(download, gains ? 64U << 10U : 100U);
    };
    world.read(0, 1U << 20U);
    world.run_out();
    if (gains) {
      EXPECT_EQ(world.outcome(), world.file);
    } else {
      EXPECT_EQ(world.outcome(), "! a: given up after 6 attempts: connection refused");
      EXPECT_EQ(asked, 12U);
    }
  }
}

TEST(SourceReader, AStormOfRefusalsIsWaitedOutAsTheServerSays) {
  for (const int status : {429, 503}) {
    World world;
    int refusals = 0;
    std::vector<Instant> times;
    world.answer = [&](const work::Download& download) {
      times.push_back(world.now);
      if (++refusals > 20) return world.usual(download);
      return work::Downloaded{.status = status, .wait = seconds(7)};
    };
    world.read(0, 10);
    const work::Download first = world.pop();
    world.reply(first, world.answer(first));
    ASSERT_TRUE(world.reader.rate_limited_until(world.now)) << status;
    EXPECT_GE(*world.reader.rate_limited_until(world.now), world.now + seconds(7));
    world.tick();
    EXPECT_THAT(world.sent, IsEmpty());  // not before its time
    world.run_out();
    EXPECT_EQ(world.outcome(), world.file.substr(0, 10)) << status;
    // What it says, and a pause that grows up to half a minute.
    Duration longest = milliseconds(500);
    for (std::size_t i = 1; i < times.size(); ++i) {
      EXPECT_GE(times[i] - times[i - 1], seconds(7) + longest / 2) << i;
      EXPECT_LE(times[i] - times[i - 1], seconds(7) + longest) << i;
      longest = std::min<Duration>(2 * longest, seconds(30));
    }
    EXPECT_FALSE(world.reader.rate_limited_until(world.now));
  }
}

TEST(SourceReader, RefusalsWithoutATimeBackOffAndEndAfterTheirPatience) {
  World world;
  std::size_t asked = 0;
  const Instant begin = world.now;
  world.answer = [&](const work::Download&) {
    ++asked;
    return work::Downloaded{.status = 429};
  };
  world.read(0, 10);
  world.run_out();
  EXPECT_THAT(world.outcome(), HasSubstr("HTTP status 429 for too long: a rate limit"));
  EXPECT_GE(world.now - begin, std::chrono::hours(2));
  EXPECT_LT(asked, 600U);  // half a minute apart, when it lasts
}

TEST(SourceReader, AUsedUpLimitIsRespectedBeforeItRefuses) {
  World world;
  world.read(0, 30);
  const work::Download first = world.pop();
  work::Downloaded last = world.usual(first);
  last.wait = seconds(40);
  world.reply(first, last);
  EXPECT_THAT(world.sent, IsEmpty());
  EXPECT_EQ(world.reader.next_deadline(), world.now + seconds(40));
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file.substr(0, 30));
}

TEST(SourceReader, AFileThatChangesIsAnErrorNotAMix) {
  World world;
  world.read(0, 10);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file.substr(0, 10));
  world.version = "\"v2\"";
  world.read(10, 30);
  world.run_out();
  EXPECT_EQ(world.outcome(),
            "! a: was changed since the job began: it had 100 bytes of version \"v1\", it has 100 "
            "bytes of version \"v2\"; start a new one");
  EXPECT_THAT(world.sent, IsEmpty());  // its other ranges are not wanted any more
  world.version = "";
  world.file += "more";
  world.read(10, 30);
  world.run_out();
  EXPECT_THAT(world.outcome(), HasSubstr("it has 104 bytes"));
}

TEST(SourceReader, AVersionOfAnEarlierLifeIsHeldAgainstTheFile) {
  World world;
  world.reader.expect({{"a", {100, "\"v0\""}}});
  world.read(0, 10);
  world.run_out();
  EXPECT_THAT(world.outcome(), HasSubstr("was changed since the job began"));
}

TEST(SourceReader, FilesOfTwoCommitsOfTheRepositoryAreNotMixed) {
  World world;
  std::string commit = "0123abc";
  world.answer = [&](const work::Download& download) {
    work::Downloaded downloaded = world.usual(download);
    downloaded.commit = commit;
    return downloaded;
  };
  world.read(0, 10);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file.substr(0, 10));
  EXPECT_EQ(world.reader.versions().find("a")->second.commit, "0123abc");
  commit = "";  // not told by the place that a redirect leads to
  world.read(10, 10);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file.substr(10, 10));
  const std::string mixed =
      "! b: is of commit 4567def, and 'a' was of commit 0123abc: the repository was changed since "
      "the job began; start a new one";
  commit = "4567def";
  world.read(0, 10, false, "b");
  world.run_out();
  EXPECT_EQ(world.outcome(), mixed);
  EXPECT_THAT(world.sent, IsEmpty());
  World later;
  later.reader.expect(world.reader.versions());
  later.read(0, 10, false, "b");
  work::Downloaded redirect{.status = 302, .location = "https://cdn.example/b"};
  redirect.commit = commit;
  later.reply(later.pop(), redirect);
  EXPECT_EQ(later.outcome(), mixed);
}

TEST(SourceReader, AFileOfAnotherCommitIsReadOnlyWhereItsVersionProvesItTheSame) {
  const std::string changed =
      "a: was changed since the job began: it had 100 bytes of version \"v1\", it has 100 bytes of "
      "version \"v2\"; start a new one";
  const std::string unproven =
      "a: is of commit 4567def, the job began at commit 0123abc, and nothing proves that it is the "
      "same in both; start a new one";

  const struct {
    const char* before;
    const char* after;
    std::string why;  ///< empty: it is proven
  } cases[] = {{"\"v1\"", "\"v1\"", ""},
               {"\"v1\"", "\"v2\"", changed},
               {"\"v1\"", "", unproven},
               {"", "\"v1\"", unproven},
               {"W/\"v1\"", "W/\"v1\"", unproven},
               {"Mon, 30 Nov 2026 10:00:00 GMT", "Mon, 30 Nov 2026 10:00:00 GMT", unproven}};

  for (const auto& one : cases) {
    for (const bool is_redirected : {false, true}) {
      World world;
      world.version = one.before;
      std::string commit = "0123abc";
      world.answer = [&](const work::Download& download) {
        const bool leads_on = is_redirected && !download.url.starts_with("https://cdn.");
        work::Downloaded answer =
            leads_on ? work::Downloaded{.status = 302} : world.usual(download);
        if (leads_on) answer.location = "https://cdn.example/" + commit;
        if (leads_on || !is_redirected) answer.commit = commit;
        return answer;
      };
      world.read(0, 10);
      world.run_out();
      EXPECT_EQ(world.outcome(), world.file.substr(0, 10));
      commit = "4567def";
      World later;
      later.version = one.after;
      later.answer = world.answer;
      later.reader.expect(world.reader.versions());
      world.version = one.after;
      later.read(10, 10);
      later.run_out();
      if (one.why.empty()) {
        EXPECT_EQ(later.outcome(), world.file.substr(10, 10));
      } else {
        EXPECT_THAT(later.outcome(), HasSubstr(one.why))
            << one.before << " " << one.after << " " << is_redirected;
      }
    }
  }
}

TEST(SourceReader, OfAHubAllFilesAreAskedForAtTheCommitOfTheFirst) {
  const std::string commit(40, 'c');
  const std::string hub = "https://hub.example/o/n/resolve/";
  for (const bool is_redirected : {false, true}) {
    World world(small("https://hub.example"), hub + "main");
    world.answer = [&](const work::Download& download) {
      const bool leads_on = is_redirected && download.url.starts_with(hub);
      work::Downloaded answer = leads_on ? work::Downloaded{.status = 302} : world.usual(download);
      if (leads_on) answer.location = "https://cdn.example/a";
      answer.commit = download.url.starts_with(hub) ? commit : "";
      return answer;
    };
    world.read(0, 10);
    world.run_out();
    EXPECT_EQ(world.outcome(), world.file.substr(0, 10));
    world.read(0, 10, false, "b");
    world.run_out();
    EXPECT_EQ(world.outcome(), world.file.substr(0, 10));
    EXPECT_EQ(world.urls.front(), hub + "main/a");
    EXPECT_THAT(world.urls, ::testing::Contains(hub + commit + "/b"));
    EXPECT_THAT(world.urls, ::testing::Not(::testing::Contains(hub + "main/b")));
    World later(small("https://hub.example"), hub + "main");
    later.reader.expect(world.reader.versions());
    later.answer = [](const work::Download&) { return work::Downloaded{.status = 404}; };
    later.read(0, 10);
    later.run_out();
    EXPECT_EQ(later.urls, std::vector<std::string>{hub + commit + "/a"});
    EXPECT_EQ(later.outcome(),
              "! a: the server answered HTTP status 404 at commit " + commit +
                  ", of which the job is: where the server dropped it, only a new job helps");
  }
}

TEST(SourceReader, ARangeThatComesTooSlowlyIsGivenUpNamingWhy) {
  SourceOptions options = small();
  options.range_bytes = 1U << 20U;
  World world(options);
  world.file = text_of(1U << 20U);
  std::size_t asked = 0;
  world.answer = [&](const work::Download& download) {
    ++asked;
    work::Downloaded downloaded = world.broken(download, 20'000);
    downloaded.failure = "less than 1024 bytes a second came for 30 seconds";
    downloaded.is_slow = true;
    return downloaded;
  };
  world.read(0, 1U << 20U);
  world.run_out();
  EXPECT_EQ(world.outcome(),
            "! a: given up after 6 attempts: less than 1024 bytes a second came for 30 seconds");
  EXPECT_EQ(asked, 6U);
}

TEST(SourceReader, ARedirectIsFollowedAndRememberedButTheTokenStaysAtTheHub) {
  World world(small("https://hub.example"), "https://hub.example/o/n/resolve/main");
  std::map<std::string, std::size_t> asked;
  std::map<std::string, work::Credential> shown;
  world.answer = [&](const work::Download& download) {
    ++asked[download.url];
    shown[download.url] = download.credential;
    if (download.url.starts_with("https://hub."))
      return work::Downloaded{.status = 302, .location = "https://cdn.example/signed?x=1"};
    return world.usual(download);
  };
  world.read(0, 60);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file.substr(0, 60));
  EXPECT_EQ(asked["https://hub.example/o/n/resolve/main/a"], 1U);
  EXPECT_EQ(asked["https://cdn.example/signed?x=1"], 6U);
  EXPECT_EQ(shown["https://hub.example/o/n/resolve/main/a"], work::Credential::hub_token);
  EXPECT_EQ(shown["https://cdn.example/signed?x=1"], work::Credential::none);
}

TEST(SourceReader, ATokenIsForTheExactOriginOfTheHub) {
  for (const char* source : {"https://hub.example.evil/r", "https://hub.example:444/r",
                             "https://other.example/hub.example", "http://localhost/r"}) {
    World world(small("https://hub.example"), source);
    world.read(0, 10);
    EXPECT_EQ(world.sent.at(0).credential, work::Credential::none) << source;
  }
  World world(small("https://HUB.example:443/x"), "https://hub.example/r");
  world.read(0, 10);
  EXPECT_EQ(world.sent.at(0).credential, work::Credential::hub_token);
}

TEST(SourceReader, ARedirectThatExpiresIsAskedForAnew) {
  World world;
  int hub_asked = 0;
  int cdn_asked = 0;
  world.answer = [&](const work::Download& download) {
    if (download.url.starts_with("https://files.")) {
      return work::Downloaded{.status = 307,
                              .location = "https://cdn.example/" + std::to_string(++hub_asked)};
    }
    if (++cdn_asked > 2 && download.url.ends_with("/1")) return work::Downloaded{.status = 403};
    return world.usual(download);
  };
  world.read(0, 100);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file);
  EXPECT_GE(hub_asked, 2);
}

TEST(SourceReader, ARedirectToPlainHttpOrInCirclesIsRefused) {
  World downgraded;
  downgraded.answer = [](const work::Download&) {
    return work::Downloaded{.status = 302, .location = "http://cdn.example/a"};
  };
  downgraded.read(0, 10);
  downgraded.run_out();
  EXPECT_EQ(downgraded.outcome(),
            "! a: is redirected: URL 'http://cdn.example/a' leads from https to http");
  World circling;
  int hops = 0;
  circling.answer = [&](const work::Download&) {
    return work::Downloaded{.status = 302,
                            .location = "https://cdn.example/" + std::to_string(++hops)};
  };
  circling.read(0, 10);
  circling.run_out();
  EXPECT_EQ(circling.outcome(), "! a: is redirected again and again");
  EXPECT_EQ(hops, 6);
}

TEST(SourceReader, WhatNoSecondAttemptWouldChangeEndsAtOnce) {
  const std::vector<std::pair<work::Downloaded, std::string>> cases = {
      {{.status = 404}, "! a: the server answered HTTP status 404"},
      {{.status = 401},
       "! a: the server answered HTTP status 401: it wants a token that may read it "
       "(TENZRO_HUB_TOKEN or HF_TOKEN in the environment)"},
      {{.status = 400}, "! a: the server answered HTTP status 400"},
      {{.failure = "certificate has expired", .is_final = true}, "! a: certificate has expired"},
      {{.status = 206, .received = 10}, "! a: the server does not say how large it is"}};
  for (const auto& [downloaded, text] : cases) {
    World world;
    std::size_t asked = 0;
    world.answer = [&, answer = downloaded](const work::Download&) {
      ++asked;
      return answer;
    };
    world.read(0, 10);
    world.run_out();
    EXPECT_EQ(world.outcome(), text);
    EXPECT_EQ(asked, 1U) << text;
  }
}

TEST(SourceReader, AServerWithoutRangesServesSmallFilesOnly) {
  World world;
  world.answer = [&](const work::Download& download) {
    work::Downloaded whole = world.usual(download);
    whole.status = 200;
    if (download.offset > 0) whole.received = 0;
    return whole;
  };
  world.file = text_of(8);
  world.read(0, 100, true);
  world.run_out();
  EXPECT_EQ(world.outcome(), world.file);
  world.file = text_of(40);
  world.read(0, 40, false, "b");
  world.run_out();
  EXPECT_EQ(world.outcome(), "! b: the server does not give parts of files");
}

TEST(SourceReader, StoppedReaderCancelsWhatIsOnItsWayAndIgnoresIt) {
  World world;
  world.read(0, 50);
  world.run_out();
  world.read(50, 50);
  const work::Download late = world.sent.front();
  Outbox out;
  world.reader.stop(out);
  world.take(std::move(out));
  EXPECT_EQ(world.cancels, 3U);
  EXPECT_THAT(world.sent, IsEmpty());
  EXPECT_FALSE(world.reader.on_downloaded(world.now, late.id, world.usual(late), out));
  EXPECT_FALSE(world.reader.next_deadline());
}

TEST(SourceReader, AReadBeyondTheBoundIsRefusedBeforeAnythingIsAllocated) {
  World world;
  world.read(0, 5ULL << 30U);
  EXPECT_THAT(world.outcome(), HasSubstr("are wanted at once"));
  EXPECT_THAT(world.sent, IsEmpty());
}

}  // namespace
}  // namespace tenzro::prepare
