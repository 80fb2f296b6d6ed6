// Goal: a download brings the part of the file that was asked for, and whatever happens tells what
// came. Method: a web server on loopback that fails as it is told.
#include <filesystem>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/http/client.hpp"

#include "support/hub_server.hpp"
#include "support/loop_thread.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::http {
namespace {

using ::testing::HasSubstr;
using testing::HubServer;

/// A file behind a server, and a client on a loop of its own.
class Downloads : public ::testing::Test {
 protected:
  Downloads() : server_(folder_.path()) {
    for (std::size_t i = 0; i < 3'000'000; ++i)
      text_.push_back(static_cast<char>((i * 31 + i / 251) & 0xFFU));
    std::ofstream(folder_.path() + "/file", std::ios::binary) << text_;
    thread_.run([this] { client_ = std::make_unique<Client>(thread_.loop()); });
  }

  ~Downloads() override {
    thread_.run([this] { client_.reset(); });
  }

  Download part(std::uint64_t offset, std::size_t size) {
    BufferRef buffer = BufferRef::allocate(size);
    const std::span<std::byte> room = buffer.mutable_bytes();
    buffer_ = buffer;
    return {.url = server_.url() + "/o/n/file",
            .offset = offset,
            .buffer = std::move(buffer),
            .room = room,
            .uses_proxy = false};
  }

  Downloaded get(Download download) {
    std::promise<Downloaded> promise;
    thread_.run([&] {
      client_->download(std::move(download),
                        [&](Downloaded downloaded) { promise.set_value(std::move(downloaded)); });
    });
    return promise.get_future().get();
  }

  [[nodiscard]] std::string received(const Downloaded& downloaded) const {
    return std::string(buffer_.text().substr(0, downloaded.received));
  }

  void always(const HubServer::Answer& answer) {
    server_.set_rule([answer](const HubServer::Request&) { return answer; });
  }

  testing::TemporaryDirectory folder_;
  std::string text_;
  BufferRef buffer_;
  HubServer server_;
  testing::LoopThread thread_;
  std::unique_ptr<Client> client_;
};

TEST_F(Downloads, GiveThePartWithTheFilesSizeAndVersion) {
  const Downloaded downloaded = get(part(1'234'567, 1'000'000));
  EXPECT_EQ(downloaded.status, 206);
  EXPECT_EQ(downloaded.failure, "");
  EXPECT_TRUE(received(downloaded) == text_.substr(1'234'567, 1'000'000));
  EXPECT_EQ(downloaded.first, 1'234'567U);
  EXPECT_EQ(downloaded.file_bytes, 3'000'000U);
  EXPECT_TRUE(downloaded.version.starts_with("\"")) << downloaded.version;
  EXPECT_FALSE(downloaded.wait);
  const Downloaded end = get(part(2'999'990, 100));
  EXPECT_EQ(end.received, 10U);
  EXPECT_EQ(end.failure, "");
  const Downloaded beyond = get(part(3'000'000, 10));
  EXPECT_EQ(beyond.status, 416);
  EXPECT_EQ(beyond.received, 0U);
  EXPECT_EQ(beyond.file_bytes, 3'000'000U);
}

TEST_F(Downloads, ThatBreakOffTellWhatCame) {
  always({.headers = {}, .body = {}, .cut_after = 70'000});
  const Downloaded downloaded = get(part(100, 500'000));
  EXPECT_EQ(downloaded.status, 206);
  EXPECT_EQ(downloaded.received, 70'000U);
  EXPECT_NE(downloaded.failure, "");
  EXPECT_FALSE(downloaded.is_final);
  EXPECT_TRUE(received(downloaded) == text_.substr(100, 70'000));
}

TEST_F(Downloads, OfAWholeFileTakeItsBeginningAndNothingBehindIt) {
  HubServer::Answer whole;
  whole.ignores_range = true;
  always(whole);
  const Downloaded beginning = get(part(0, 1000));
  EXPECT_EQ(beginning.status, 200);
  EXPECT_EQ(beginning.received, 1000U);
  EXPECT_EQ(beginning.failure, "");
  EXPECT_EQ(beginning.file_bytes, 3'000'000U);
  EXPECT_TRUE(received(beginning) == text_.substr(0, 1000));
  const Downloaded later = get(part(5, 1000));
  EXPECT_EQ(later.status, 200);
  EXPECT_EQ(later.received, 0U);
}

TEST_F(Downloads, ARedirectIsToldAndNotFollowed) {
  always({.status = 302, .headers = {"Location: /other/place?x=1"}, .body = "moved"});
  const Downloaded downloaded = get(part(0, 10));
  EXPECT_EQ(downloaded.status, 302);
  EXPECT_EQ(downloaded.location, server_.url() + "/other/place?x=1");
  EXPECT_EQ(downloaded.received, 0U);
  EXPECT_EQ(server_.requests().size(), 1U);
}

TEST_F(Downloads, WhatAServerSaysOfItsLimitsIsToldInTime) {
  using std::chrono::seconds;
  always({.status = 429, .headers = {"Retry-After: 7"}, .body = {}});
  EXPECT_EQ(get(part(0, 10)).wait, Duration(seconds(7)));
  always({.status = 429, .headers = {"RateLimit: \"api\";r=0;t=55"}, .body = {}});
  EXPECT_EQ(get(part(0, 10)).wait, Duration(seconds(55)));
  always({.status = 503, .headers = {"RateLimit-Remaining: 0", "RateLimit-Reset: 9"}, .body = {}});
  EXPECT_EQ(get(part(0, 10)).wait, Duration(seconds(9)));
  always({.headers = {"RateLimit: \"api\";r=3;t=55"}, .body = {}});
  EXPECT_FALSE(get(part(0, 10)).wait);
}

TEST_F(Downloads, HeadersOfTheCallerAreSent) {
  Download download = part(0, 10);
  download.headers = {{"Authorization", "Bearer secret"}};
  EXPECT_EQ(get(std::move(download)).received, 10U);
  const auto requests = server_.requests();
  EXPECT_EQ(requests.at(0).headers.at("authorization"), "Bearer secret");
  EXPECT_EQ(requests.at(0).headers.at("range"), "bytes=0-9");
}

TEST_F(Downloads, ASilentServerIsGivenUpAndASlowOneIsNot) {
  HubServer::Answer slow;
  slow.is_slow = true;
  always(slow);
  Download trickle = part(0, 40'000);
  trickle.stall_timeout = std::chrono::seconds(1);
  EXPECT_EQ(get(std::move(trickle)).received, 40'000U);
  HubServer::Answer silent;
  silent.is_silent = true;
  always(silent);
  Download stalled = part(0, 10);
  stalled.stall_timeout = std::chrono::seconds(1);
  const Downloaded downloaded = get(std::move(stalled));
  EXPECT_EQ(downloaded.status, 0);
  EXPECT_NE(downloaded.failure, "");
}

TEST_F(Downloads, ATrickleIsBrokenOffNamingItsRateAndWhatCameStays) {
  HubServer::Answer trickle;
  trickle.is_slow = true;
  trickle.slow_bytes = 1;
  trickle.headers = {"X-Repo-Commit: 0123abc"};
  always(trickle);
  Download download = part(0, 40'000);
  download.stall_timeout = std::chrono::seconds(2);
  const Downloaded downloaded = get(std::move(download));
  EXPECT_EQ(downloaded.status, 206);
  EXPECT_TRUE(downloaded.is_slow);
  EXPECT_FALSE(downloaded.is_final);
  EXPECT_GT(downloaded.received, 0U);
  EXPECT_LT(downloaded.received, 40'000U);
  EXPECT_EQ(downloaded.failure, "less than 1024 bytes a second came for 2 seconds");
  EXPECT_EQ(downloaded.commit, "0123abc");
}

TEST_F(Downloads, ManySideBySideFillOneBuffer) {
  BufferRef buffer = BufferRef::allocate(text_.size());
  std::byte* const data = buffer.mutable_bytes().data();
  constexpr std::size_t kPart = 300'000;
  std::promise<void> all;
  std::size_t left = text_.size() / kPart;
  thread_.run([&] {
    for (std::size_t at = 0; at < text_.size(); at += kPart) {
      client_->download({.url = server_.url() + "/file",
                         .offset = at,
                         .buffer = buffer,
                         .room = {data + at, kPart},
                         .uses_proxy = false},
                        [&](const Downloaded& downloaded) {
                          EXPECT_EQ(downloaded.received, kPart);
                          if (--left == 0) all.set_value();
                        });
    }
  });
  all.get_future().wait();
  EXPECT_TRUE(buffer.text() == text_);
}

TEST_F(Downloads, NoUrlButHttpIsOpened) {
  Download download = part(0, 10);
  download.url = "file://" + folder_.path() + "/file";
  const Downloaded downloaded = get(std::move(download));
  EXPECT_EQ(downloaded.received, 0U);
  EXPECT_TRUE(downloaded.is_final);
}

}  // namespace
}  // namespace tenzro::http
