// The life of a connection: order, keep-alive, limits, time, leaving, draining.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness.hpp"

namespace tenzro::http {
namespace {

using Kind = Event::Kind;

TEST(Session, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("hold") + post("second") + get("/healthz") + post("fourth")));
  const Event held = server.wait_for(Kind::rpc);
  EXPECT_EQ(held.text, "hold");
  server.reply(held.id, 200, "first");
  EXPECT_EQ(client.receive().body, "first");
  EXPECT_EQ(client.receive().body, "second");
  EXPECT_EQ(client.receive().body, "a page\n");
  EXPECT_EQ(client.receive().body, "fourth");
}

TEST(Session, AFloodOfPipelinedRequestsIsAnsweredToTheLast) {
  TestServer server;
  RawClient client(server.port());
  constexpr int kRequests = 2000;
  std::string flood;
  for (int i = 0; i < kRequests; ++i) flood += post(std::to_string(i));
  std::thread sender([&] { EXPECT_TRUE(client.send(flood)); });
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(client.receive().body, std::to_string(i));
  sender.join();
}

TEST(Session, KeepsTheConnectionUnlessToldNotTo) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("a")));
  EXPECT_EQ(client.receive().headers.at("Connection"), "keep-alive");
  ASSERT_TRUE(client.send(post("b", "Connection: close\r\n")));
  EXPECT_EQ(client.receive().headers.at("Connection"), "close");
  EXPECT_TRUE(client.sees_end());

  RawClient old(server.port());
  ASSERT_TRUE(old.send("GET /healthz HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(old.receive().headers.at("Connection"), "close");
  EXPECT_TRUE(old.sees_end());
}

TEST(Session, ARefusalWithoutABodyKeepsTheConnection) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get("/nowhere") + get("/healthz")));
  EXPECT_EQ(client.receive().status, 404);
  EXPECT_EQ(client.receive().status, 200);
}

TEST(Session, ALargeBodyComesBackWhole) {
  TestServer server;
  std::string body(5'000'000, 'x');
  for (std::size_t i = 0; i < body.size(); i += 997) body[i] = static_cast<char>('a' + i % 23);
  RawClient client(server.port());
  std::thread sender([&] { EXPECT_TRUE(client.send(post(body))); });
  EXPECT_TRUE(client.receive().body == body);
  sender.join();
  EXPECT_TRUE(server.eventually([](const Stats& stats) { return stats.bodies_bytes == 0; }));
}

TEST(Session, AChunkedBodyGrowsToItsLimitAndNoFurther) {
  constexpr std::size_t kLimit = 300'000;
  TestServer server(options_with([](Options& o) { o.body_bytes_max = kLimit; }));
  const std::string start =
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  std::string exact = start;
  for (int i = 0; i < 30; ++i)
    exact += "2710\r\n" + std::string(10'000, static_cast<char>('a' + i % 26)) + "\r\n";
  const Response response = ask(server.port(), exact + "0\r\nTrailer: x\r\n\r\n");
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(response.body.size(), kLimit);
  EXPECT_EQ(response.body.substr(9'999, 2), "ab");
  EXPECT_EQ(ask(server.port(), exact + "1\r\nx\r\n0\r\n\r\n").status, 413);
}

TEST(Session, SaysContinueBeforeTheBodyAndOnlyWhenItIsWanted) {
  TestServer server(options_with([](Options& o) { o.body_bytes_max = 100; }));
  RawClient client(server.port());
  const std::string head =
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: ";
  ASSERT_TRUE(client.send(head + "2\r\n\r\n"));
  EXPECT_EQ(client.receive(false).status, 100);
  ASSERT_TRUE(client.send("ok"));
  EXPECT_EQ(client.receive().body, "ok");

  RawClient large(server.port());
  ASSERT_TRUE(large.send(head + "200\r\n\r\n"));
  EXPECT_EQ(large.receive().status, 413);
}

TEST(Session, ATooLargeBodyIsRefusedThoughTheClientSendsItAllFirst) {
  TestServer server(options_with([](Options& o) { o.body_bytes_max = 1000; }));
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post(std::string(20U << 20U, 'x'))));
  const Response response = client.receive();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.headers.at("Connection"), "close");
  EXPECT_EQ(response.body, R"({"jsonrpc":"2.0","id":null,"error":{"code":-32600,)"
                           R"("message":"the body is larger than 1000 bytes"}})");
  EXPECT_TRUE(client.sees_end());
}

TEST(Session, BodiesInFlightHaveACapThatIsGivenBack) {
  TestServer server(options_with([](Options& o) { o.bodies_bytes_max = 200'000; }));
  RawClient first(server.port());
  ASSERT_TRUE(first.send(post("hold" + std::string(99'996, ' '))));
  const Event held = server.wait_for(Kind::rpc);
  const Response refused = ask(server.port(), post(std::string(100'001, 'x')));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("Retry-After"), "1");
  EXPECT_EQ(ask(server.port(), post(std::string(100'000, 'x'))).status, 200);
  EXPECT_EQ(ask(server.port(), post(std::string(60'000, 'x'))).status, 200);  // small: free
  server.reply(held.id, 200, "done");
  EXPECT_EQ(first.receive().status, 200);
  EXPECT_EQ(ask(server.port(), post(std::string(200'000, 'x'))).status, 200);
}

TEST(Session, LargeLengthsThatAreOnlyAnnouncedShutNobodyOut) {
  TestServer server(options_with([](Options& o) { o.bodies_bytes_max = o.body_bytes_max; }));
  std::vector<std::unique_ptr<RawClient>> announcing;
  for (int i = 0; i < 8; ++i) {
    announcing.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(announcing.back()->send(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(Options{}.body_bytes_max / 2) + "\r\n\r\nx"));
  }
  EXPECT_EQ(ask(server.port(), post(std::string(1000, 'x'))).status, 200);
  EXPECT_EQ(ask(server.port(), post(std::string(300'000, 'x'))).status, 200);
}

TEST(Session, SlowHeadersGet408AndSilenceIsClosedWithoutAWord) {
  TestServer server(
      options_with([](Options& o) { o.header_timeout = std::chrono::milliseconds(50); }));
  RawClient slow(server.port());
  ASSERT_TRUE(slow.send("POST / HTTP/1.1\r\nHos"));
  EXPECT_EQ(slow.receive().status, 408);
  EXPECT_TRUE(slow.sees_end());
  RawClient silent(server.port());
  EXPECT_TRUE(silent.sees_end());
}

TEST(Session, AStalledBodyGets408) {
  TestServer server(
      options_with([](Options& o) { o.idle_timeout = std::chrono::milliseconds(50); }));
  RawClient client(server.port());
  ASSERT_TRUE(
      client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: 10\r\n\r\n12345"));
  EXPECT_EQ(client.receive().status, 408);
  EXPECT_TRUE(client.sees_end());
}

TEST(Session, AnIdleConnectionIsClosedAndAPendingOneIsNot) {
  TestServer server(options_with([](Options& o) {
    o.header_timeout = std::chrono::milliseconds(50);
    o.idle_timeout = std::chrono::milliseconds(50);
    o.keep_alive_timeout = std::chrono::milliseconds(50);
  }));
  RawClient pending(server.port());
  ASSERT_TRUE(pending.send(post("hold")));
  const Event held = server.wait_for(Kind::rpc);
  RawClient idle(server.port());
  ASSERT_TRUE(idle.send(post("x")));
  EXPECT_EQ(idle.receive().status, 200);
  EXPECT_TRUE(idle.sees_end());  // takes as long as every timeout above
  server.reply(held.id, 200, "patience");
  EXPECT_EQ(pending.receive().body, "patience");
}

TEST(Session, AReaderThatStopsIsClosed) {
  TestServer server(
      options_with([](Options& o) { o.idle_timeout = std::chrono::milliseconds(50); }));
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("hold")));
  const Event held = server.wait_for(Kind::rpc);
  server.reply(held.id, 200, std::string(64U << 20U, 'x'));
  EXPECT_TRUE(server.eventually([](const Stats& stats) { return stats.connections_open == 0; }));
}

TEST(Session, AClientThatLeavesBeforeItsAnswerIsReported) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("hold")));
  const Event held = server.wait_for(Kind::rpc);
  client.close();
  EXPECT_EQ(server.wait_for(Kind::gone).id, held.id);
  server.reply(held.id, 200, "too late");  // nobody minds
  EXPECT_EQ(ask(server.port(), post("still here")).status, 200);
}

TEST(Session, AResetIsReportedToo) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("hold")));
  const Event held = server.wait_for(Kind::rpc);
  client.reset();
  EXPECT_EQ(server.wait_for(Kind::gone).id, held.id);
}

TEST(Session, AnAnsweredRequestIsNeverReportedGone) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("hold")));
  const Event held = server.wait_for(Kind::rpc);
  server.reply(held.id, 200, "a");
  server.reply(held.id, 200, "b");
  EXPECT_EQ(client.receive().body, "a");
  client.close();
  RawClient other(server.port());
  ASSERT_TRUE(other.send(post("hold")));
  const Event second = server.wait_for(Kind::rpc);
  other.close();
  EXPECT_EQ(server.wait_for(Kind::gone).id, second.id);
}

TEST(Session, SurvivesAnAbortAtEveryByte) {
  TestServer server;
  const std::string chunked =
      "PUT /blob HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n0\r\n\r\n";
  for (const std::string& request : {post("hold"), post("echo"), chunked}) {
    for (std::size_t size = 0; size <= request.size(); ++size) {
      RawClient client(server.port());
      ASSERT_TRUE(client.send(std::string_view(request).substr(0, size)));
      if (size % 2 == 0) client.reset();
    }
  }
  EXPECT_EQ(ask(server.port(), post("alive")).body, "alive");
  EXPECT_TRUE(server.eventually(
      [](const Stats& stats) { return stats.connections_open == 0 && stats.bodies_bytes == 0; }));
}

TEST(Session, ConnectionsBeyondTheLimitGet503) {
  TestServer server(options_with([](Options& o) { o.connections_max = 2; }));
  RawClient first(server.port());
  RawClient second(server.port());
  ASSERT_TRUE(first.send(post("1")));
  EXPECT_EQ(first.receive().status, 200);
  ASSERT_TRUE(second.send(post("2")));
  EXPECT_EQ(second.receive().status, 200);
  RawClient third(server.port());
  const Response refused = third.receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("Retry-After"), "1");
  first.close();
  ASSERT_TRUE(server.eventually([](const Stats& stats) { return stats.connections_open == 1; }));
  EXPECT_EQ(ask(server.port(), post("again")).status, 200);
}

TEST(Session, DrainFinishesWhatIsPendingAndRefusesWhatIsNew) {
  TestServer server;
  RawClient idle(server.port());
  ASSERT_TRUE(idle.send(post("x")));
  EXPECT_EQ(idle.receive().status, 200);
  RawClient pending(server.port());
  ASSERT_TRUE(pending.send(post("hold") + post("pipelined")));
  const Event held = [&] {
    Event event = server.wait_for(Kind::rpc);
    while (event.text != "hold") event = server.wait_for(Kind::rpc);
    return event;
  }();
  server.drain();
  EXPECT_TRUE(idle.sees_end());
  EXPECT_FALSE(RawClient(server.port()).is_connected());
  server.reply(held.id, 200, "last");
  const Response last = pending.receive();
  EXPECT_EQ(last.body, "last");
  EXPECT_EQ(last.headers.at("Connection"), "close");
  EXPECT_TRUE(pending.sees_end());
  EXPECT_TRUE(server.wait_drained());
}

TEST(Session, DrainOfAnIdleServerEndsAtOnce) {
  TestServer server;
  server.drain();
  EXPECT_TRUE(server.wait_drained());
}

TEST(Server, TheHandlerIsNotCalledOnceTheServerIsGone) {
  auto server = std::make_unique<TestServer>();
  RawClient client(server->port());
  ASSERT_TRUE(client.send(post("hold")));
  EXPECT_EQ(server->wait_for(Kind::rpc).text, "hold");
  server.reset();
  EXPECT_TRUE(client.sees_end());
}

TEST(Server, APortThatIsTakenIsAnErrorThatNamesIt) {
  TestServer server;
  exec::Loop loop;
  Options options;
  options.listen.port = server.port();
  const auto second = Server::listen(loop, options, server);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().where, "127.0.0.1:" + std::to_string(server.port()));
}

}  // namespace
}  // namespace tenzro::http
