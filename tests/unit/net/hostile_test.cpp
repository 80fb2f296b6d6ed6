// Peers and datagrams that mean no good.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tenzro/base/prng.hpp"

#include "harness.hpp"

namespace tenzro::net {
namespace {

/// A plain UDP socket that sends what it is told.
class Stranger {
 public:
  Stranger(exec::Loop& loop, const std::string& to)
      : socket_(loop.context(), {}), to_(*SocketAddress::parse(to)) {
    EXPECT_TRUE(socket_.open(*SocketAddress::parse("127.0.0.1:0")));
  }

  void send(const std::vector<std::uint8_t>& bytes) {
    socket_.send({.to = to_, .segment = bytes.size(), .bytes = bytes});
  }

 private:
  UdpSocket socket_;
  SocketAddress to_;
};

TEST(HostileTest, GarbageDatagramsDoNoHarm) {
  exec::Loop loop;
  Peer server(loop, 1);
  Peer client(loop, 2);
  server.echoes = true;
  Stranger stranger(loop, server.endpoint().address());
  Prng prng(5);
  constexpr std::size_t kDatagrams = 400;
  for (std::size_t i = 0; i < kDatagrams; ++i) {
    std::vector<std::uint8_t> bytes(1 + prng.below(1400));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.below(256));
    if (i % 4 == 0 && bytes.size() > 5) {  // a long header of version 1
      bytes[0] = 0xc3;
      bytes[1] = bytes[2] = bytes[3] = 0;
      bytes[4] = 1;
      bytes[5] = 8;
    }
    stranger.send(bytes);
    settle(loop);
  }
  const PeerCallId call = client.call(server.target(), "still there");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(call) != nullptr; }));
  EXPECT_TRUE(*client.ended(call));
  EXPECT_GE(server.endpoint().totals().packets_dropped, kDatagrams / 2);
}

TEST(HostileTest, RequestBeyondItsLimitIsResetAndNotHandedOver) {
  exec::Loop loop;
  Peer server(loop, 1);
  Seams seams;
  seams.limits = [](wire::Protocol) {
    return wire::ProtocolLimits{.request_bytes_max = 64 << 20, .reply_bytes_max = 64 << 20};
  };
  Peer client(loop, 2, {}, std::move(seams));
  const PeerCallId call = client.call(server.target(), {pattern(3 << 20)}, wire::Protocol::gossip);
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(call) != nullptr; }));
  ASSERT_FALSE(*client.ended(call));
  EXPECT_TRUE(server.requests.empty());
}

TEST(HostileTest, RepeatedRefusalsCloseTheConnection) {
  exec::Loop loop;
  Peer server(loop, 1);
  Peer client(loop, 2);
  server.on_request_do = [&](const Request& request) { server.endpoint().refuse(request.id); };
  for (int i = 0; i < Connection::kStrikesMax; ++i) client.call(server.target(), "nonsense");
  ASSERT_TRUE(run_until(loop, [&] { return client.replies == Connection::kStrikesMax; }));
  ASSERT_TRUE(run_until(loop, [&] { return server.endpoint().connections() == 0; }));
  ASSERT_TRUE(run_until(loop, [&] { return client.endpoint().connections() == 0; }));
  EXPECT_EQ(server.endpoint().totals().requests_refused, Connection::kStrikesMax);
}

TEST(HostileTest, NewcomersProveTheirAddressWhenTokensAreAskedFor) {
  exec::Loop loop;
  Seams seams;
  seams.retry_from = 0;
  Peer server(loop, 1, {}, std::move(seams));
  Peer client(loop, 2);
  server.echoes = true;
  const PeerCallId call = client.call(server.target(), "hello");
  ASSERT_TRUE(run_until(loop, [&] { return client.ended(call) != nullptr; }));
  EXPECT_TRUE(*client.ended(call)) << client.ended(call)->error().message();
  EXPECT_EQ(server.endpoint().totals().retries, 1U);
}

TEST(HostileTest, OneNetworkCannotFillTheDoorWithHandshakesThatNeverEnd) {
  exec::Loop loop;
  Seams seams;
  seams.retry_from = 0;
  Peer server(loop, 1, {}, std::move(seams));
  // Each gets through the proof of its address, then never a packet more to the server.
  std::deque<Peer> stuck;
  for (std::size_t i = 0; i < Doorkeeper::kHalfOpenOfOneMax + 8; ++i) {
    auto sent = std::make_shared<int>(0);
    Seams silent;
    silent.send_message = [sent](int fd, const msghdr* message) -> ssize_t {
      if (++*sent <= 2) return sendmsg(fd, message, 0);
      return static_cast<ssize_t>(message->msg_iov[0].iov_len);
    };
    stuck.emplace_back(loop, static_cast<std::uint8_t>(2 + i % 200), Options{}, std::move(silent))
        .call(server.target(), "hello");
  }
  // A Retry counts as dropped too.
  ASSERT_TRUE(run_until(
      loop, [&] { return server.endpoint().totals().packets_dropped >= stuck.size() + 8; }));
  EXPECT_EQ(server.endpoint().connections(), Doorkeeper::kHalfOpenOfOneMax);
}

TEST(HostileTest, ConnectionBeyondTheLimitIsRefusedAtOnce) {
  exec::Loop loop;
  Peer server(loop, 1, {.connections_max = 1});
  Peer first(loop, 2);
  Peer second(loop, 3);
  server.echoes = true;
  const PeerCallId taken = first.call(server.target(), "hello");
  ASSERT_TRUE(run_until(loop, [&] { return first.ended(taken) != nullptr; }));
  EXPECT_TRUE(*first.ended(taken));
  const PeerCallId refused = second.call(server.target(), "hello");
  ASSERT_TRUE(run_until(loop, [&] { return second.ended(refused) != nullptr; }));
  EXPECT_FALSE(*second.ended(refused));
  EXPECT_EQ(server.endpoint().connections(), 1U);
}

TEST(HostileTest, StrangersLeaveRoomForOwnDials) {
  exec::Loop loop;
  Peer node(loop, 1, {.connections_max = 4});
  Peer friendly(loop, 2);
  node.echoes = true;
  friendly.echoes = true;
  std::deque<Peer> strangers;
  for (std::uint8_t seed = 3; seed < 8; ++seed) {
    Peer& stranger = strangers.emplace_back(loop, seed);
    const PeerCallId call = stranger.call(node.target(), "hello");
    ASSERT_TRUE(run_until(loop, [&] { return stranger.ended(call) != nullptr; }));
    EXPECT_EQ(stranger.ended(call)->has_value(), strangers.size() <= 3) << strangers.size();
  }
  EXPECT_EQ(node.endpoint().connections(), 3U);
  const PeerCallId own = node.call(friendly.target(), "hello");
  ASSERT_TRUE(run_until(loop, [&] { return node.ended(own) != nullptr; }));
  EXPECT_TRUE(*node.ended(own)) << node.ended(own)->error().message();
}

}  // namespace
}  // namespace tenzro::net
