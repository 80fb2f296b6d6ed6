// The parts of the module that need neither socket nor clock.
#include <gtest/gtest.h>

#include "datagram.hpp"
#include "mtu_guard.hpp"
#include "own_address.hpp"
#include "pacer.hpp"
#include "send_queue.hpp"
#include "socket_address.hpp"
#include "stream.hpp"

namespace tenzro::net {
namespace {

std::vector<std::uint8_t> bytes_of(std::size_t size, std::uint8_t value = 7) {
  return std::vector<std::uint8_t>(size, value);
}

TEST(IncomingBytesTest, OnePieceIsHeldInExactlyItsSize) {
  IncomingBytes in(100);
  ASSERT_TRUE(in.append(bytes_of(100), true));
  EXPECT_EQ(in.take().size(), 100U);
}

TEST(IncomingBytesTest, PiecesAreJoinedUpToTheLimitAndNotBeyond) {
  IncomingBytes in(100'000);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(in.append(bytes_of(1000, std::uint8_t(i)), false));
  EXPECT_FALSE(in.append(bytes_of(1), true));
  IncomingBytes whole(100'000);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(whole.append(bytes_of(1000, std::uint8_t(i)), i == 99));
  const BufferRef message = whole.take();
  ASSERT_EQ(message.size(), 100'000U);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(message.bytes()[i * 1000 + 999], std::byte(i));
}

TEST(OutgoingBytesTest, PartsAreGatheredFromWhereSendingStoppedAndLetGoWhenAcknowledged) {
  OutgoingBytes out;
  BufferRef first = BufferRef::copy_of("abc");
  out.assign({first, {}, BufferRef::copy_of("defg")});
  EXPECT_EQ(out.size(), 7U);
  std::array<ngtcp2_vec, 4> vectors{};
  ASSERT_EQ(out.gather(vectors), 2U);
  out.on_sent(2, false);
  ASSERT_EQ(out.gather(vectors), 2U);
  EXPECT_EQ(vectors[0].len, 1U);
  EXPECT_EQ(vectors[0].base[0], 'c');
  EXPECT_EQ(vectors[1].len, 4U);
  out.on_sent(5, true);
  EXPECT_FALSE(out.is_pending());
  out.on_acknowledged(2);
  EXPECT_EQ(out.unacknowledged(), 5U);
  out.on_acknowledged(7);
  EXPECT_EQ(out.unacknowledged(), 0U);
  EXPECT_EQ(first.mutable_bytes().size(), 3U);  // asserts that nobody else holds it
}

TEST(PacerTest, WhatWentOverANearPathBringsNoPauseWhenThePathIsNearNoMore) {
  constexpr Pacer::Path kNear{.smoothed_rtt = 200'000, .congestion_window = 400'000};
  constexpr Pacer::Path kLate{.smoothed_rtt = 1'200'000, .congestion_window = 400'000};
  Pacer pacer;
  for (std::uint64_t turn = 0; turn < 10'000; ++turn)
    EXPECT_FALSE(pacer.on_sent(turn, 400'000, kNear));
  EXPECT_FALSE(pacer.is_paused(10'000));
  ASSERT_TRUE(pacer.on_sent(10'000, 400'000, kLate));
  EXPECT_TRUE(pacer.is_paused(10'000));
  EXPECT_LE(pacer.resumes_at() - 10'000, kLate.smoothed_rtt);
  EXPECT_FALSE(pacer.is_paused(pacer.resumes_at()));
}

TEST(PacerTest, ABurstLeavesAtOnceAndThePausesMakeAQuarterMoreThanAWindowARoundTrip) {
  constexpr Pacer::Path kFar{
      .smoothed_rtt = 20'000'000, .congestion_window = 1'000'000, .quantum = 14'000};
  EXPECT_EQ(Pacer::burst(kFar), 50'000U);
  Pacer pacer;
  EXPECT_FALSE(pacer.on_sent(0, 49'999, kFar));
  std::uint64_t now = 0;
  std::uint64_t sent = 0;
  while (sent < 50 * kFar.congestion_window) {
    pacer.on_sent(now, 10'000, kFar);
    sent += 10'000;
    if (pacer.is_paused(now)) now = pacer.resumes_at();
  }
  const double round_trips = static_cast<double>(now) / static_cast<double>(kFar.smoothed_rtt);
  EXPECT_NEAR(round_trips, 50 / 1.25, 0.5);
}

TEST(PacerTest, AWindowOfNothingIsNoDivisionByZero) {
  Pacer pacer;
  EXPECT_TRUE(pacer.on_sent(0, 1, {.smoothed_rtt = 5'000'000}));
  EXPECT_EQ(Pacer::burst({}), 0U);
}

TEST(SendQueueTest, ShortMessagesGoFirstAndLongOnesByAge) {
  const auto make = [](std::int64_t id, std::size_t size) {
    auto stream = std::make_unique<Stream>(id, 1);
    stream->out.assign({BufferRef::allocate(size)});
    return stream;
  };
  const auto old_long = make(0, SendQueue::kShortBytes + 1);
  const auto new_long = make(4, SendQueue::kShortBytes + 1);
  const auto small = make(8, 10);
  SendQueue queue;
  queue.add(*new_long);
  queue.add(*old_long);
  queue.add(*small);
  queue.add(*small);
  for (std::size_t i = 0; i < SendQueue::kShortRun; ++i) EXPECT_EQ(queue.next(), small.get());
  EXPECT_EQ(queue.next(), old_long.get());
  EXPECT_EQ(queue.next(), small.get());
  queue.remove(*small);
  queue.remove(*old_long);
  EXPECT_EQ(queue.next(), new_long.get());
  queue.remove(*new_long);
  EXPECT_EQ(queue.next(), nullptr);
}

TEST(SocketAddressTest, LoopbackIsKnownInEveryForm) {
  for (const char* here : {"127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(SocketAddress::parse(here).value().is_loopback()) << here;
  }
  for (const char* away : {"128.0.0.1:1", "10.0.0.127:1", "[::2]:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(SocketAddress::parse(away).value().is_loopback()) << away;
  }
}

TEST(MtuGuardTest, SilenceAfterLargePacketsLimitsThemUntilARetry) {
  MtuGuard guard;
  EXPECT_EQ(guard.limit(1452), 1452U);
  guard.on_sent(100, 1452);
  guard.on_time(1000, 1000);
  EXPECT_EQ(guard.limit(1452), 1452U);
  guard.on_time(1100, 1000);
  EXPECT_EQ(guard.limit(1452), MtuGuard::kSafeBytes);
  EXPECT_TRUE(guard.on_progress(2000, true));
  EXPECT_FALSE(guard.on_progress(2001, true));
  guard.on_time(2000 + MtuGuard::kFirstRetry - 1, 1000);
  EXPECT_EQ(guard.limit(1452), MtuGuard::kSafeBytes);
  guard.on_time(2000 + MtuGuard::kFirstRetry, 1000);
  EXPECT_EQ(guard.limit(1452), 1452U);
}

TEST(MtuGuardTest, ProgressOrSmallPacketsAreNoBlackHole) {
  MtuGuard guard;
  guard.on_sent(0, 1200);
  guard.on_time(5000, 1000);
  EXPECT_EQ(guard.limit(1452), 1452U);
  guard.on_sent(5000, 1452);
  EXPECT_FALSE(guard.on_progress(5500, false));
  guard.on_time(6400, 1000);
  EXPECT_EQ(guard.limit(1452), 1452U);
}

TEST(SocketAddressTest, TextIsReadAndWrittenBack) {
  for (const char* text : {"127.0.0.1:9001", "[::1]:1", "[2001:db8::5]:65535", "0.0.0.0:0"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), text);
  }
  for (const char* text : {"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:-1", "::1:5",
                           "[::1]", "host:5", "1.2.3.4:5 ", "[]:1"}) {
    EXPECT_FALSE(SocketAddress::parse(text)) << text;
  }
}

TEST(SocketAddressTest, Ipv4IsReachedFromAnIpv6SocketAndNotTheOtherWay) {
  const auto ipv4 = *SocketAddress::parse("10.1.2.3:5");
  const auto mapped = ipv4.for_family(AF_INET6);
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(mapped->is_ipv4_mapped());
  EXPECT_EQ(mapped->text(), "10.1.2.3:5");
  EXPECT_FALSE(SocketAddress::parse("[::1]:5")->for_family(AF_INET));
}

TEST(HostPortTest, NamesAreTakenApart) {
  const auto where = HostPort::parse("node.example:9001");
  ASSERT_TRUE(where);
  EXPECT_EQ(where->host, "node.example");
  EXPECT_EQ(where->port, 9001);
  EXPECT_FALSE(HostPort::parse(std::string(300, 'a') + ":1"));
}

TEST(DatagramTest, ShortHeaderNamesItsConnection) {
  std::vector<std::uint8_t> packet(40, 9);
  packet[0] = 0x40;
  const auto head = read_head(packet);
  ASSERT_TRUE(head);
  EXPECT_FALSE(head->is_long);
  EXPECT_EQ(head->kind, DatagramKind::packet);
  ASSERT_EQ(head->destination.size(), kConnectionIdBytes);
  EXPECT_EQ(head->destination.data(), packet.data() + 1);
  packet.resize(kConnectionIdBytes);
  EXPECT_FALSE(read_head(packet));
  EXPECT_FALSE(read_head({}));
}

TEST(DatagramTest, UnknownVersionIsToldApart) {
  std::vector<std::uint8_t> packet(1200, 0);
  packet[0] = 0xc0;
  packet[1] = packet[2] = packet[3] = packet[4] = 0x1a;
  packet[5] = 30;  // longer than version 1 allows
  packet[36] = 4;
  const auto head = read_head(packet);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->kind, DatagramKind::unknown_version);
  EXPECT_EQ(head->destination.size(), 30U);
  EXPECT_EQ(head->source.size(), 4U);
  packet[4] = 1;
  packet[1] = packet[2] = packet[3] = 0;
  EXPECT_FALSE(read_head(packet));
}

TEST(OwnAddressTest, BoundAddressIsOwnAndItsNeighboursAreNot) {
  const auto is_own = [](const char* address, const char* bound) {
    return is_own_address(*SocketAddress::parse(address), *SocketAddress::parse(bound));
  };
  EXPECT_TRUE(is_own("10.0.0.7:9001", "10.0.0.7:9001"));
  EXPECT_TRUE(is_own("[::ffff:10.0.0.7]:9001", "10.0.0.7:9001"));
  EXPECT_FALSE(is_own("10.0.0.7:9002", "10.0.0.7:9001"));
  EXPECT_FALSE(is_own("10.0.0.8:9001", "10.0.0.7:9001"));
  EXPECT_FALSE(is_own("127.0.0.1:9001", "127.0.0.2:9001"));
}

TEST(OwnAddressTest, WildcardIsEveryAddressOfThisMachine) {
  for (const char* bound : {"0.0.0.0:9001", "[::]:9001"}) {
    const SocketAddress wildcard = *SocketAddress::parse(bound);
    EXPECT_TRUE(is_own_address(*SocketAddress::parse("127.0.0.3:9001"), wildcard)) << bound;
    EXPECT_TRUE(is_own_address(*SocketAddress::parse("[::1]:9001"), wildcard)) << bound;
    EXPECT_FALSE(is_own_address(*SocketAddress::parse("127.0.0.1:9002"), wildcard)) << bound;
    // Of a range for documents: no machine has it.
    EXPECT_FALSE(is_own_address(*SocketAddress::parse("203.0.113.9:9001"), wildcard)) << bound;
  }
}

}  // namespace
}  // namespace tenzro::net
