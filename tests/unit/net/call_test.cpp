// Calls and replies between endpoints on loopback.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

#include "datagram.hpp"
#include "harness.hpp"

namespace tenzro::net {
namespace {

bool equal(const BufferRef& a, const BufferRef& b) {
  return a.size() == b.size() && std::memcmp(a.bytes().data(), b.bytes().data(), a.size()) == 0;
}

/// What the loopback interface says it takes; 0 where it does not say.
std::size_t loopback_bytes() {
  std::size_t bytes = 0;
  std::ifstream("/sys/class/net/lo/mtu") >> bytes;
  return bytes;
}

class CallTest : public testing::Test {
 protected:
  [[nodiscard]] const Result<Reply>& wait(Peer& peer, PeerCallId call) {
    EXPECT_TRUE(run_until(loop_, [&] { return peer.ended(call) != nullptr; }));
    static const Result<Reply> kNone = fail(ErrorCode::internal, {}, "did not end");
    const Result<Reply>* ended = peer.ended(call);
    return ended == nullptr ? kNone : *ended;
  }

  exec::Loop loop_;
  Peer server_{loop_, 1};
  Peer client_{loop_, 2};
};

TEST_F(CallTest, CallIsAnsweredByTheKeyThatWasCalled) {
  server_.echoes = true;
  const auto& ended = wait(client_, client_.call(server_.target(), "hello"));
  ASSERT_TRUE(ended) << ended.error().message();
  EXPECT_EQ(ended->bytes.text(), "hello");
  EXPECT_EQ(ended->from, server_.id());
  ASSERT_EQ(server_.requests.size(), 1U);
  EXPECT_EQ(server_.requests[0].from, client_.id());
  EXPECT_EQ(server_.requests[0].protocol, wire::Protocol::moe);
  EXPECT_EQ(server_.requests[0].address, client_.endpoint().address());
}

TEST_F(CallTest, EmptyRequestAndEmptyReplyAreMessagesToo) {
  server_.echoes = true;
  const auto& ended = wait(client_, client_.call(server_.target(), "", wire::Protocol::gossip));
  ASSERT_TRUE(ended) << ended.error().message();
  EXPECT_EQ(ended->bytes.size(), 0U);
}

TEST_F(CallTest, PartsArriveAsOneMessage) {
  server_.echoes = true;
  std::vector<BufferRef> parts;
  std::string whole;
  for (int i = 0; i < 40; ++i) {
    parts.push_back(BufferRef::copy_of(std::to_string(i)));
    whole += std::to_string(i);
  }
  const auto& ended =
      wait(client_, client_.call(server_.target(), std::move(parts), wire::Protocol::exec));
  ASSERT_TRUE(ended) << ended.error().message();
  EXPECT_EQ(ended->bytes.text(), whole);
}

TEST_F(CallTest, ManyConcurrentCallsShareOneConnection) {
  server_.echoes = true;
  constexpr std::size_t kCalls = 1000;  // more than the peer's streams at once
  std::vector<PeerCallId> calls;
  for (std::size_t i = 0; i < kCalls; ++i) {
    calls.push_back(client_.call(server_.target(), std::to_string(i)));
  }
  ASSERT_TRUE(run_until(loop_, [&] { return client_.replies == kCalls; }));
  for (std::size_t i = 0; i < kCalls; ++i) {
    const Result<Reply>& ended = *client_.ended(calls[i]);
    ASSERT_TRUE(ended) << ended.error().message();
    EXPECT_EQ(ended->bytes.text(), std::to_string(i));
  }
  EXPECT_EQ(client_.endpoint().connections(), 1U);
  EXPECT_EQ(client_.endpoint().totals().handshakes, 1U);
  EXPECT_FALSE(client_.was_reentered || server_.was_reentered);
}

TEST_F(CallTest, ManyMoreCallsThanStreamsOfOneConnectionAreAllAnswered) {
  for (const std::size_t streams_max : {1U, 4U, 64U}) {
    Peer server(loop_, 3, {.streams_max = streams_max});
    Peer client(loop_, 4);
    server.echoes = true;
    constexpr std::size_t kCalls = 200;
    for (std::size_t i = 0; i < kCalls; ++i) client.call(server.target(), std::to_string(i));
    EXPECT_TRUE(run_until(loop_, [&] { return client.replies == kCalls; })) << streams_max;
    EXPECT_EQ(client.endpoint().totals().handshakes, 1U);
  }
}

TEST_F(CallTest, LargestRepliesArriveWhole) {
  server_.echoes = true;
  const BufferRef big = pattern(4 << 20);
  std::vector<PeerCallId> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(client_.call(server_.target(), {big}, wire::Protocol::exec));
  }
  for (const PeerCallId call : calls) {
    const auto& ended = wait(client_, call);
    ASSERT_TRUE(ended) << ended.error().message();
    EXPECT_TRUE(equal(ended->bytes, big));
  }
}

TEST_F(CallTest, PacketsAreSmallInTheHandshakeAndAsLargeAsLoopbackTakesThereafter) {
  server_.echoes = true;
  std::vector<std::size_t> sizes;
  Seams seams;
  seams.send_message = [&](int fd, const msghdr* message) -> ssize_t {
    sizes.push_back(message->msg_iov[0].iov_len);
    return sendmsg(fd, message, 0);
  };
  Peer client(loop_, 3, {.gso = false}, std::move(seams));
  ASSERT_TRUE(wait(client, client.call(server_.target(), "hello")));
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), kFirstDatagramBytesMin);
  settle(loop_);
  ASSERT_TRUE(wait(client, client.call(server_.target(), {pattern(300'000)}, wire::Protocol::moe)));
  const std::size_t largest = loopback_bytes() >= 65'536 ? 60'000 : kFirstDatagramBytesMin + 1;
  EXPECT_GE(*std::max_element(sizes.begin(), sizes.end()), largest);
}

TEST_F(CallTest, InterfaceThatTakesLessThanItSaysIsServedInSmallPackets) {
  constexpr std::size_t kTaken = 9000;
  server_.echoes = true;
  std::size_t refused = 0;
  Seams seams;
  seams.send_message = [&](int fd, const msghdr* message) -> ssize_t {
    if (message->msg_iov[0].iov_len <= kTaken) return sendmsg(fd, message, 0);
    ++refused;
    errno = EMSGSIZE;
    return -1;
  };
  Peer client(loop_, 3, {.gso = false}, std::move(seams));
  ASSERT_TRUE(wait(client, client.call(server_.target(), "hello")));
  const BufferRef large = pattern(300'000);
  const auto& ended = wait(client, client.call(server_.target(), {large}, wire::Protocol::moe));
  ASSERT_TRUE(ended) << ended.error().message();
  EXPECT_TRUE(equal(ended->bytes, large));
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(client.endpoint().totals().mtu_black_holes, 1U);
}

TEST_F(CallTest, AnotherKeyAtTheAddressIsForbidden) {
  Target wrong = server_.target();
  wrong.id->fill(7);
  const auto& ended = wait(client_, client_.call(wrong, "hello"));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::forbidden);
  EXPECT_TRUE(server_.requests.empty());
}

TEST_F(CallTest, AnotherKeyIsForgivenWhereAnAddressFailedOtherwise) {
  Peer other(loop_, 3);
  Target target = server_.target();
  for (const bool is_first : {true, false}) {
    target.addresses = {other.endpoint().address()};
    target.addresses.insert(is_first ? target.addresses.begin() : target.addresses.end(),
                            "no address");
    const Result<Reply>& ended = wait(client_, client_.call(target, "hello"));
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::io) << is_first;
  }
}

TEST_F(CallTest, OwnAddressAmongThoseOfAPeerIsSkipped) {
  server_.echoes = true;
  Target target = server_.target();
  target.addresses = {client_.endpoint().address()};
  const Result<Reply>& alone = wait(client_, client_.call(target, "hello"));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, ErrorCode::io);
  EXPECT_EQ(client_.endpoint().totals().packets_sent, 0U);
  target.addresses.push_back(server_.endpoint().address());
  EXPECT_TRUE(wait(client_, client_.call(target, "hello")));
}

TEST_F(CallTest, TargetWithoutIdTakesWhoeverAnswers) {
  server_.echoes = true;
  const auto& ended =
      wait(client_, client_.call({.id = {}, .addresses = {server_.endpoint().address()}}, "who"));
  ASSERT_TRUE(ended) << ended.error().message();
  EXPECT_EQ(ended->from, server_.id());
}

TEST_F(CallTest, AddressesAreTriedInTurn) {
  server_.echoes = true;
  Target target = server_.target();
  target.addresses = {"not an address", "[::1]:9", "127.0.0.1:99999", server_.endpoint().address()};
  const auto& ended = wait(client_, client_.call(target, "hello"));
  ASSERT_TRUE(ended) << ended.error().message();
}

TEST_F(CallTest, HostNamesAreResolved) {
  // A bare system may have no hosts file.
  addrinfo* found = nullptr;
  if (getaddrinfo("localhost", nullptr, nullptr, &found) != 0)
    GTEST_SKIP() << "this system does not know localhost";
  freeaddrinfo(found);
  server_.echoes = true;
  Target target = server_.target();
  const std::string address = target.addresses[0];
  target.addresses = {"localhost" + address.substr(address.rfind(':'))};
  const auto& ended = wait(client_, client_.call(target, "hello"));
  ASSERT_TRUE(ended) << ended.error().message();
}

TEST_F(CallTest, CancelledCallReachesTheServerAndHasNoReply) {
  const PeerCallId call = client_.call(server_.target(), "slow");
  ASSERT_TRUE(run_until(loop_, [&] { return server_.requests.size() == 1; }));
  client_.endpoint().cancel(call);
  ASSERT_TRUE(run_until(loop_, [&] { return server_.cancelled.size() == 1; }));
  EXPECT_EQ(server_.cancelled[0], server_.requests[0].id);
  server_.endpoint().reply(server_.requests[0].id, {BufferRef::copy_of("late")});
  settle(loop_);
  EXPECT_EQ(client_.ended(call), nullptr);
}

TEST_F(CallTest, RefusedRequestIsARuntimeError) {
  const PeerCallId call = client_.call(server_.target(), "nonsense");
  ASSERT_TRUE(run_until(loop_, [&] { return server_.requests.size() == 1; }));
  server_.endpoint().refuse(server_.requests[0].id);
  const auto& ended = wait(client_, call);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::runtime);
}

TEST_F(CallTest, ReplyBeyondItsLimitIsNoSpace) {
  const PeerCallId call = client_.call(server_.target(), "", wire::Protocol::gossip);
  ASSERT_TRUE(run_until(loop_, [&] { return server_.requests.size() == 1; }));
  server_.endpoint().reply(server_.requests[0].id,
                           {pattern(wire::limits_of(wire::Protocol::gossip).reply_bytes_max + 1)});
  const auto& ended = wait(client_, call);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::no_space);
}

TEST_F(CallTest, OwnRequestBeyondItsLimitIsNotSent) {
  const auto& ended =
      wait(client_,
           client_.call(server_.target(),
                        {pattern(wire::limits_of(wire::Protocol::gossip).request_bytes_max + 1)},
                        wire::Protocol::gossip));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::no_space);
  EXPECT_EQ(client_.endpoint().connections(), 0U);
}

}  // namespace
}  // namespace tenzro::net
