// Endpoints that close, die, and come back.
#include <gtest/gtest.h>

#include "harness.hpp"

namespace tenzro::net {
namespace {

TEST(LifetimeTest, CloseSaysGoodbyeSoThatCallsFailAtOnce) {
  exec::Loop loop;
  Peer server(loop, 1);
  Peer client(loop, 2);
  const PeerCallId call = client.call(server.target(), "slow");
  ASSERT_TRUE(run_until(loop, [&] { return server.requests.size() == 1; }));
  bool is_closed = false;
  const Instant begin = loop.now();
  server.endpoint().close([&] { is_closed = true; });
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(call) != nullptr && is_closed; }));
  EXPECT_LT(loop.now() - begin, std::chrono::seconds(2));
  ASSERT_FALSE(*client.ended(call));
  EXPECT_EQ(client.ended(call)->error().code, ErrorCode::io);
  EXPECT_EQ(server.cancelled.size(), 1U);
  EXPECT_EQ(server.endpoint().connections(), 0U);
  const PeerCallId late = server.call(client.target(), "late");
  EXPECT_EQ(server.ended(late), nullptr);
  ASSERT_TRUE(run_until(loop, [&] { return server.ended(late) != nullptr; }));
}

/// A call that has ended well, and nothing of it is under way.
void connect(exec::Loop& loop, Peer& client, Peer& server) {
  server.echoes = true;
  const PeerCallId first = client.call(server.target(), "first");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(first) != nullptr; }));
  ASSERT_TRUE(*client.ended(first)) << client.ended(first)->error().message();
  settle(loop);
  server.echoes = false;
}

TEST(LifetimeTest, RequestThatArrivedIsAcknowledgedBeforeTheCloseAndSoNotTakenForUnserved) {
  exec::Loop loop;
  Peer server(loop, 1);
  Peer client(loop, 2);
  connect(loop, client, server);
  // In the turn that the request arrives in: nothing else has acknowledged it.
  server.on_request_do = [&](const Request&) { server.endpoint().close([] {}); };
  const PeerCallId call = client.call(server.target(), "second");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(call) != nullptr; }));
  EXPECT_EQ(server.requests.size(), 2U);
  ASSERT_FALSE(*client.ended(call));
  EXPECT_EQ(client.ended(call)->error().code, ErrorCode::io);
  EXPECT_NE(client.ended(call)->error().message().find("the peer closed the connection"),
            std::string::npos)
      << client.ended(call)->error().message();
}

TEST(LifetimeTest, RequestThatTheClosingPeerHadNotReadDidNotReachIt) {
  exec::Loop loop;
  Peer server(loop, 1);
  Peer client(loop, 2);
  connect(loop, client, server);
  const std::uint64_t sent = client.endpoint().totals().packets_sent;
  const PeerCallId call = client.call(server.target(), "second");
  while (client.endpoint().totals().packets_sent == sent)
    ASSERT_NE(loop.context().run_one_for(std::chrono::seconds(20)), 0U);
  server.endpoint().close([] {});
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(call) != nullptr; }));
  EXPECT_EQ(server.requests.size(), 1U);
  ASSERT_FALSE(*client.ended(call));
  EXPECT_EQ(client.ended(call)->error().code, ErrorCode::cancelled);
  EXPECT_NE(client.ended(call)->error().message().find("the call did not reach the peer"),
            std::string::npos)
      << client.ended(call)->error().message();
}

TEST(LifetimeTest, PeerThatIsNotThereIsAnIoError) {
  exec::Loop loop;
  Peer client(loop, 2, {.handshake_timeout = std::chrono::milliseconds(200)});
  Target nobody;
  {
    Peer gone(loop, 1);
    nobody = gone.target();
  }
  const PeerCallId call = client.call(nobody, "hello");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(call) != nullptr; }));
  ASSERT_FALSE(*client.ended(call));
  EXPECT_EQ(client.ended(call)->error().code, ErrorCode::io);
  EXPECT_EQ(client.endpoint().connections(), 0U);
}

TEST(LifetimeTest, PeerThatDiedAndCameBackEndsOldCallsAndTakesNewOnes) {
  exec::Loop loop;
  auto server = std::make_unique<Peer>(loop, 1);
  Peer client(loop, 2);
  const Target target = server->target();
  const PeerCallId lost = client.call(target, "slow");
  ASSERT_TRUE(run_until(loop, [&] { return server->requests.size() == 1; }));
  server.reset();  // without goodbye
  server = std::make_unique<Peer>(loop, 1, Options{.listen = target.addresses[0]});
  server->echoes = true;
  const PeerCallId next = client.call(target, "on the old connection");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(lost) && client.ended(next); }));
  EXPECT_FALSE(*client.ended(lost));
  EXPECT_GE(server->endpoint().totals().stateless_resets, 1U);
  const PeerCallId again = client.call(target, "again");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(again) != nullptr; }));
  EXPECT_TRUE(*client.ended(again));
}

TEST(LifetimeTest, IdleConnectionIsClosedAndDialledAnew) {
  exec::Loop loop;
  const Options options{.idle_timeout = std::chrono::milliseconds(150)};
  Peer server(loop, 1, options);
  Peer client(loop, 2, options);
  server.echoes = true;
  const PeerCallId first = client.call(server.target(), "one");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(first) != nullptr; }));
  ASSERT_TRUE(run_until(loop, [&] { return client.endpoint().connections() == 0; }));
  const PeerCallId second = client.call(server.target(), "two");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(second) != nullptr; }));
  EXPECT_TRUE(*client.ended(second));
  EXPECT_EQ(client.endpoint().totals().handshakes, 2U);
}

TEST(LifetimeTest, KeepAliveHoldsAConnectionWhileACallIsUnderWay) {
  exec::Loop loop;
  const Options options{.idle_timeout = std::chrono::milliseconds(300),
                        .keep_alive = std::chrono::milliseconds(50)};
  Peer server(loop, 1, options);
  Peer client(loop, 2, options);
  const PeerCallId call = client.call(server.target(), "slow");
  ASSERT_TRUE(run_until(loop, [&] { return server.requests.size() == 1; }));
  const Instant begin = loop.now();
  ASSERT_TRUE(run_until(loop, [&] { return loop.now() - begin > std::chrono::milliseconds(900); }));
  server.endpoint().reply(server.requests[0].id, {BufferRef::copy_of("done")});
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(call) != nullptr; }));
  EXPECT_TRUE(*client.ended(call)) << client.ended(call)->error().message();
}

TEST(LifetimeTest, EndpointMayBeDestroyedByItsOwnHandler) {
  exec::Loop loop;
  Peer server(loop, 1);
  Peer client(loop, 2);
  Peer other(loop, 3);
  server.echoes = true;
  other.echoes = true;
  client.on_reply_do = [&] { client.destroy(); };
  client.call(server.target(), "one");
  client.call(other.target(), "two");
  client.call(other.target(), "three", wire::Protocol::exec);
  ASSERT_TRUE(run_until(loop, [&] { return client.replies == 1; }));
  settle(loop);
  EXPECT_EQ(client.replies, 1U);
}

TEST(LifetimeTest, ServerMayBeDestroyedInTheMiddleOfARequest) {
  exec::Loop loop;
  Peer server(loop, 1);
  Peer client(loop, 2);
  server.on_request_do = [&](const Request&) { server.destroy(); };
  client.call(server.target(), "one");
  client.call(server.target(), "two");
  ASSERT_TRUE(run_until(loop, [&] { return server.requests.size() == 1; }));
  client.destroy();
  settle(loop);
  EXPECT_EQ(server.requests.size(), 1U);
}

}  // namespace
}  // namespace tenzro::net
