// Downloads with ranges, uploads with back-pressure.
#include <gtest/gtest.h>

#include "harness.hpp"

namespace tenzro::http {
namespace {

using Kind = Event::Kind;

std::string sample(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('a' + i * 7 % 26);
  return bytes;
}

const std::string kPath = "/blob/" + std::string(64, 'a');
const std::string kEtag = "\"" + std::string(64, 'a') + "\"";

TEST(Blob, ComesInPiecesAndWhole) {
  TestServer server;
  server.blob = sample(5'000'001);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get(kPath)));
  const Response response = client.receive();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.body == *server.blob);
  EXPECT_EQ(response.headers.at("ETag"), kEtag);
  EXPECT_EQ(response.headers.at("Accept-Ranges"), "bytes");
  EXPECT_EQ(server.wait_for(Kind::piece_wanted).offset, 0U);
  EXPECT_EQ(server.wait_for(Kind::piece_wanted).offset, 1U << 20U);
  ASSERT_TRUE(client.send(get("/healthz")));
  EXPECT_EQ(client.receive().status, 200);
}

TEST(Blob, RangesAreServedOrRefused) {
  TestServer server;
  server.blob = sample(1000);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get(kPath, "Range: bytes=10-19\r\n")));
  const Response part = client.receive();
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.headers.at("Content-Range"), "bytes 10-19/1000");
  EXPECT_EQ(part.body, server.blob->substr(10, 10));
  ASSERT_TRUE(client.send(get(kPath, "Range: bytes=-1\r\n")));
  EXPECT_EQ(client.receive().body, server.blob->substr(999));
  ASSERT_TRUE(client.send(get(kPath, "Range: bytes=1000-\r\n")));
  const Response beyond = client.receive();
  EXPECT_EQ(beyond.status, 416);
  EXPECT_EQ(beyond.headers.at("Content-Range"), "bytes */1000");
  ASSERT_TRUE(client.send(get(kPath, "Range: bytes=0-0\r\nIf-Range: \"other\"\r\n")));
  EXPECT_EQ(client.receive().body.size(), 1000U);
  ASSERT_TRUE(client.send(get(kPath, "Range: bytes=0-0\r\nIf-Range: " + kEtag + "\r\n")));
  EXPECT_EQ(client.receive().body.size(), 1U);
}

TEST(Blob, HeadSaysTheSizeAndSendsNothing) {
  TestServer server;
  server.blob = sample(1000);
  RawClient client(server.port());
  ASSERT_TRUE(client.send("HEAD " + kPath + " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(client.receive(false).headers.at("Content-Length"), "1000");
  ASSERT_TRUE(client.send(get("/healthz")));
  EXPECT_EQ(client.receive().body, "a page\n");
}

TEST(Blob, AnEmptyOrUnknownBlobIsAnsweredToo) {
  TestServer server;
  EXPECT_EQ(ask(server.port(), get(kPath)).status, 404);
  server.on_loop([&](Server&) { server.blob = ""; });
  const Response empty = ask(server.port(), get(kPath));
  EXPECT_EQ(empty.status, 200);
  EXPECT_EQ(empty.headers.at("Content-Length"), "0");
}

TEST(Blob, AClientThatLeavesHalfwayIsReported) {
  TestServer server;
  server.blob = sample(64U << 20U);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get(kPath)));
  const Event wanted = server.wait_for(Kind::piece_wanted);
  client.reset();
  EXPECT_EQ(server.wait_for(Kind::gone).id, wanted.id);
}

std::string put_head(std::size_t size) {
  return "PUT /blob HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(size) +
         "\r\n";
}

TEST(Upload, ArrivesInPiecesAndInOrder) {
  TestServer server;
  const std::string bytes = sample(1'000'000);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(put_head(bytes.size()) + "\r\n" + bytes));
  EXPECT_EQ(client.receive().status, 201);
  EXPECT_EQ(server.wait_for(Kind::put_begun).declared, bytes.size());
  std::string received;
  while (received.size() < bytes.size()) {
    const Event piece = server.wait_for(Kind::put_piece);
    ASSERT_EQ(piece.kind, Kind::put_piece);
    EXPECT_LE(piece.text.size(), 256U << 10U);
    received += piece.text;
  }
  EXPECT_TRUE(received == bytes);
  EXPECT_EQ(server.wait_for(Kind::put_ended).kind, Kind::put_ended);
  ASSERT_TRUE(client.send(post("same connection")));
  EXPECT_EQ(client.receive().body, "same connection");
}

TEST(Upload, NothingMoreIsReadUntilTheNodeAsks) {
  TestServer server;
  server.takes_uploads = false;
  const std::string bytes = sample(300U << 10U);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(put_head(bytes.size()) + "Expect: 100-continue\r\n\r\n"));
  const Event begun = server.wait_for(Kind::put_begun);
  server.on_loop([&](Server& s) { s.put_continue(begun.id); });
  EXPECT_EQ(client.receive(false).status, 100);
  ASSERT_TRUE(client.send(bytes));
  EXPECT_EQ(server.wait_for(Kind::put_piece).text.size(), 256U << 10U);
  server.on_loop([&](Server& s) {
    s.put_continue(begun.id);
    s.put_continue(begun.id);  // asking twice asks once
  });
  EXPECT_EQ(server.wait_for(Kind::put_piece).text.size(), 44U << 10U);
  server.on_loop([&](Server& s) { s.put_continue(begun.id); });
  EXPECT_EQ(server.wait_for(Kind::put_ended).id, begun.id);
  server.reply(begun.id, 201, "uri");
  EXPECT_EQ(client.receive().body, "uri");
}

TEST(Upload, AnEmptyBodyEndsAtOnce) {
  TestServer server;
  EXPECT_EQ(ask(server.port(), put_head(0) + "\r\n").status, 201);
}

TEST(Upload, AnEarlyAnswerRefusesTheRest) {
  TestServer server;
  server.takes_uploads = false;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(put_head(1U << 30U) + "\r\nstart"));
  const Event begun = server.wait_for(Kind::put_begun);
  server.reply(begun.id, 507, "no space");
  const Response response = client.receive();
  EXPECT_EQ(response.status, 507);
  EXPECT_EQ(response.headers.at("Connection"), "close");
  EXPECT_TRUE(client.sees_end());
}

TEST(Upload, AClientThatLeavesHalfwayIsReported) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(put_head(1000) + "\r\nhalf"));
  const Event begun = server.wait_for(Kind::put_begun);
  client.close();
  EXPECT_EQ(server.wait_for(Kind::gone).id, begun.id);
}

TEST(Upload, AStalledOneIsRefusedAndReported) {
  TestServer server(
      options_with([](Options& o) { o.idle_timeout = std::chrono::milliseconds(50); }));
  RawClient client(server.port());
  ASSERT_TRUE(client.send(put_head(1000) + "\r\nhalf"));
  const Event begun = server.wait_for(Kind::put_begun);
  EXPECT_EQ(client.receive().status, 408);
  EXPECT_EQ(server.wait_for(Kind::gone).id, begun.id);
}

TEST(Upload, HasALimitOfItsOwn) {
  TestServer server(options_with([](Options& o) { o.put_bytes_max = 1000; }));
  EXPECT_EQ(ask(server.port(), put_head(1001) + "\r\n").status, 413);
  const std::string chunked =
      "PUT /blob HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3e8\r\n" +
      std::string(1000, 'x') + "\r\n";
  EXPECT_EQ(ask(server.port(), chunked + "0\r\n\r\n").status, 201);
  EXPECT_EQ(ask(server.port(), chunked + "1\r\nx\r\n0\r\n\r\n").status, 413);
}

}  // namespace
}  // namespace tenzro::http
