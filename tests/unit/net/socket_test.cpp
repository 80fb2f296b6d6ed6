// UdpSocket over loopback, and what the kernel may refuse.
#include <cerrno>

#include <gtest/gtest.h>

#include "tenzro/exec/loop.hpp"

#include "udp_socket.hpp"

namespace tenzro::net {
namespace {

struct Pair {
  explicit Pair(UdpSocket::Options options)
      : from(loop.context(), std::move(options)), to(loop.context(), {}) {
    EXPECT_TRUE(from.open(*SocketAddress::parse("127.0.0.1:0")));
    EXPECT_TRUE(to.open(*SocketAddress::parse("127.0.0.1:0")));
  }

  /// Sizes of the datagrams that arrive until there are `count`.
  std::vector<std::size_t> sizes(std::size_t count) {
    std::vector<std::size_t> sizes;
    while (sizes.size() < count) {
      to.wait_readable([](std::error_code) {});
      if (loop.context().run_one_for(std::chrono::seconds(10)) == 0) break;
      to.receive([&](const Datagram& datagram) {
        sizes.push_back(datagram.bytes.size());
        last_ecn = datagram.ecn;
      });
    }
    return sizes;
  }

  void send(std::size_t bytes, std::size_t segment, std::uint8_t ecn = 0) {
    const std::vector<std::uint8_t> payload(bytes, 1);
    from.send({.to = to.local(), .ecn = ecn, .segment = segment, .bytes = payload});
  }

  exec::Loop loop;
  UdpSocket from;
  UdpSocket to;
  std::uint8_t last_ecn = 0;
};

TEST(UdpSocketTest, BatchArrivesInSegmentsWithItsMark) {
  Pair pair({});
  pair.send(2500, 1000, 2);
  EXPECT_EQ(pair.sizes(3), (std::vector<std::size_t>{1000, 1000, 500}));
  EXPECT_EQ(pair.last_ecn, 2);
  EXPECT_EQ(pair.from.counts().packets_sent, 3U);
  EXPECT_EQ(pair.to.counts().packets_received, 3U);
}

TEST(UdpSocketTest, RefusedOffloadIsResentSinglyAndNotTriedAgain) {
  for (const int refusal : {EIO, EINVAL}) {
    int offloads = 0;
    Pair pair({.send_message = [&](int fd, const msghdr* message) -> ssize_t {
      if (message->msg_iov[0].iov_len <= 1000) return sendmsg(fd, message, 0);
      ++offloads;
      errno = refusal;
      return -1;
    }});
    pair.send(2500, 1000);
    EXPECT_EQ(pair.sizes(3), (std::vector<std::size_t>{1000, 1000, 500}));
    pair.send(2000, 1000);
    EXPECT_EQ(pair.sizes(2), (std::vector<std::size_t>{1000, 1000}));
    EXPECT_EQ(offloads, 1);
    EXPECT_EQ(pair.from.counts().gso_fallbacks, 1U);
    EXPECT_FALSE(pair.from.is_gso_on());
  }
}

TEST(UdpSocketTest, BatchWithoutRoomIsKeptAndSentLater) {
  bool is_full = true;
  Pair pair({.send_message = [&](int fd, const msghdr* message) -> ssize_t {
    if (!is_full) return sendmsg(fd, message, 0);
    errno = EAGAIN;
    return -1;
  }});
  pair.send(2500, 1000);
  EXPECT_TRUE(pair.from.is_blocked());
  EXPECT_EQ(pair.from.counts().packets_sent, 0U);
  is_full = false;
  bool is_ready = false;
  pair.from.wait_writable([&](std::error_code) { is_ready = true; });
  while (!is_ready) pair.loop.context().run_one();
  EXPECT_FALSE(pair.from.is_blocked());
  EXPECT_EQ(pair.sizes(3).size(), 3U);
}

TEST(UdpSocketTest, TooLargeDatagramIsLostAndNothingElse) {
  Pair pair({.send_message = [](int fd, const msghdr* message) -> ssize_t {
    if (message->msg_iov[0].iov_len <= 1200) return sendmsg(fd, message, 0);
    errno = EMSGSIZE;
    return -1;
  }});
  pair.send(1400, 1400);
  pair.send(1100, 1100);
  EXPECT_EQ(pair.sizes(1), (std::vector<std::size_t>{1100}));
  EXPECT_EQ(pair.from.counts().gso_fallbacks, 0U);
}

TEST(UdpSocketTest, AddressInUseIsNamed) {
  Pair pair({});
  UdpSocket second(pair.loop.context(), {});
  const Status opened = second.open(pair.from.local());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::io);
  EXPECT_EQ(opened.error().where, pair.from.local().text());
}

}  // namespace
}  // namespace tenzro::net
