// Goal: whatever a server does, a call of the client has one outcome, within its limits.
// Method: the project's own server, or a socket that misbehaves, on loopback.
#include "tenzro/http/client.hpp"

#include <future>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.hpp"

namespace tenzro::http {
namespace {

std::string endpoint_of(std::uint16_t port) {
  return "http://127.0.0.1:" + std::to_string(port);
}

std::string blob_path() {
  return "/blob/" + std::string(64, 'a');
}

const std::vector<Header> kJson{{"Content-Type", "application/json"}};

/// A client on a loop of its own.
class Calls {
 public:
  using Future = std::future<Result<Answer>>;

  explicit Calls(ClientOptions options = {}) {
    thread_ = std::thread([this] { loop_.run(); });
    on_loop([&] { client_ = std::make_unique<Client>(loop_, options); });
  }

  ~Calls() {
    on_loop([this] { client_.reset(); });
    loop_.stop();
    thread_.join();
  }

  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  void on_loop(const std::function<void()>& task) {
    std::promise<void> done;
    loop_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  /// Begins a call; the future never comes where it is cancelled.
  template <typename Begin>
  std::pair<CallRef, Future> begin(Begin begin) {
    auto promise = std::make_shared<std::promise<Result<Answer>>>();
    auto future = promise->get_future();
    CallRef call{};
    on_loop([&] {
      call = begin(*client_,
                   [promise](Result<Answer> answer) { promise->set_value(std::move(answer)); });
    });
    return {call, std::move(future)};
  }

  std::pair<CallRef, Future> begin_post(Post post) {
    return begin([&](Client& client, Client::Done done) {
      return client.post(std::move(post), std::move(done));
    });
  }

  Result<Answer> post(Post post) { return outcome(begin_post(std::move(post)).second); }

  Result<Answer> get(RangedGet get) {
    return outcome(begin([&](Client& client, Client::Done done) {
                     return client.get(std::move(get), std::move(done));
                   }).second);
  }

  static Result<Answer> outcome(Future future) {
    if (future.wait_for(kPatience) != std::future_status::ready)
      return fail(ErrorCode::internal, "", "no outcome");
    return future.get();
  }

  void cancel(CallRef call) {
    on_loop([&] { client_->cancel(call); });
  }

  ClientStats stats() {
    ClientStats stats;
    on_loop([&] { stats = client_->stats(); });
    return stats;
  }

 private:
  exec::Loop loop_;
  std::unique_ptr<Client> client_;
  std::thread thread_;
};

/// Listens and answers every connection with the same bytes, then hangs up; with none: keeps it and
/// says nothing.
class RawServer {
 public:
  explicit RawServer(std::string bytes) : bytes_(std::move(bytes)) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    void* const raw = &address;
    socklen_t size = sizeof address;
    ::bind(fd_, static_cast<const sockaddr*>(raw), size);
    ::listen(fd_, 8);
    ::getsockname(fd_, static_cast<sockaddr*>(raw), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }

  ~RawServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
    for (const int kept : kept_) ::close(kept);
  }

  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  [[nodiscard]] std::string endpoint() const { return endpoint_of(port_); }

 private:
  void serve() {
    for (;;) {
      const int peer = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (peer < 0) return;
      kept_.push_back(peer);
      if (bytes_.empty()) continue;
      std::array<char, 4096> request{};
      static_cast<void>(::recv(peer, request.data(), request.size(), 0));
      static_cast<void>(::send(peer, bytes_.data(), bytes_.size(), MSG_NOSIGNAL));
      ::shutdown(peer, SHUT_WR);
    }
  }

  std::string bytes_;
  int fd_ = -1;
  std::uint16_t port_ = 0;
  std::vector<int> kept_;
  std::thread thread_;
};

Post to(const std::string& endpoint, std::string_view body = "x") {
  return {.endpoint = endpoint, .headers = kJson, .body = BufferRef::copy_of(body)};
}

ErrorCode code_of(const Result<Answer>& answer) {
  EXPECT_FALSE(answer.has_value());
  return answer ? ErrorCode::internal : answer.error().code;
}

TEST(HttpClient, PostsABodyWithItsHeadersAndGetsTheAnswer) {
  TestServer server;
  Calls calls;
  Post post = to(endpoint_of(server.port()), "hello");
  post.headers.push_back({"X-Tenzro-Node", "n"});
  post.headers.push_back({"X-Tenzro-Time", "7"});
  post.headers.push_back({"X-Tenzro-Signature", "s"});
  const Result<Answer> answer = calls.post(std::move(post));
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body.text(), "hello");
  const Event event = server.wait_for(Event::Kind::rpc);
  ASSERT_TRUE(event.caller.node.has_value());
  EXPECT_EQ(event.caller.node->time, "7");
  EXPECT_EQ(event.caller.node->path, "/");
  const ClientStats stats = calls.stats();
  EXPECT_EQ(stats.answered, 1U);
  EXPECT_EQ(stats.bytes_sent, 5U);
  EXPECT_EQ(stats.bytes_received, 5U);
}

TEST(HttpClient, LargeBodiesTravelBothWaysOverOneConnection) {
  TestServer server;
  Calls calls;
  std::string large(5'000'000, 'x');
  large.back() = 'y';
  for (int i = 0; i < 3; ++i) {
    const Result<Answer> answer = calls.post(to(endpoint_of(server.port()), large));
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_TRUE(answer->body.text() == large);
  }
  EXPECT_EQ(server.stats().connections, 1U);
}

TEST(HttpClient, ARequestThatCannotBeMadeFailsAloneAndTheNextIsAnswered) {
  TestServer server;
  Calls calls;
  Post post = to(endpoint_of(server.port()));
  post.path = "/" + std::string(9'000'000, 'p');  // longer than libcurl takes: as if out of memory
  EXPECT_EQ(code_of(calls.post(std::move(post))), ErrorCode::busy);
  EXPECT_TRUE(calls.post(to(endpoint_of(server.port()))));
}

TEST(HttpClient, AnEmptyBodyIsSentAndAnEmptyAnswerTaken) {
  TestServer server;
  server.answer = [](std::string_view body) { return body.empty() ? "notify" : "other"; };
  Calls calls;
  const Result<Answer> answer = calls.post(to(endpoint_of(server.port()), ""));
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->status, 204);
  EXPECT_TRUE(answer->body.empty());
}

TEST(HttpClient, AStatusIsAnAnswerAndARedirectIsNotFollowed) {
  TestServer server;
  Calls calls;
  Post refused = to(endpoint_of(server.port()));
  refused.headers = {{"Content-Type", "text/plain"}};
  const Result<Answer> answer = calls.post(std::move(refused));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 415);

  RawServer redirecting("HTTP/1.1 307 Elsewhere\r\nLocation: " + endpoint_of(server.port()) +
                        "/\r\nContent-Length: 0\r\n\r\n");
  const Result<Answer> redirect = calls.post(to(redirecting.endpoint()));
  ASSERT_TRUE(redirect) << redirect.error().message();
  EXPECT_EQ(redirect->status, 307);
  EXPECT_EQ(server.stats().requests, 1U);
}

TEST(HttpClient, OnlyARealEndpointIsCalled) {
  Calls calls;
  for (const char* bad : {"file:///etc/passwd", "http://a", "http://u:p@a:1", "http://a:1/x", ""}) {
    EXPECT_EQ(code_of(calls.post(to(bad))), ErrorCode::invalid_params) << bad;
  }
}

TEST(HttpClient, ARefusedConnectionIsAnIoError) {
  std::string endpoint;
  {
    const RawServer gone("");
    endpoint = gone.endpoint();
  }
  Calls calls;
  EXPECT_EQ(code_of(calls.post(to(endpoint))), ErrorCode::io);
  EXPECT_EQ(calls.stats().failed, 1U);
}

TEST(HttpClient, ASilentServerIsGivenUpAtTheTimeout) {
  const RawServer silent("");
  Calls calls;
  Post post = to(silent.endpoint());
  post.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(code_of(calls.post(std::move(post))), ErrorCode::io);
}

TEST(HttpClient, WhatIsNoHttpIsAnIoError) {
  Calls calls;
  for (const char* bytes :
       {"nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour"}) {
    const RawServer bad(bytes);
    EXPECT_EQ(code_of(calls.post(to(bad.endpoint()))), ErrorCode::io) << bytes;
  }
}

TEST(HttpClient, AHeadWithoutEndIsBrokenOff) {
  std::string head = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 4000; ++i) head += "X-Header-" + std::to_string(i) + ": aaaaaaaaaaaaaaaa\r\n";
  const RawServer bad(head + "\r\n");
  Calls calls;
  EXPECT_EQ(code_of(calls.post(to(bad.endpoint()))), ErrorCode::io);
}

TEST(HttpClient, ReplyLargerThanAllowedIsRefusedDeclaredOrNot) {
  TestServer server;
  Calls calls;
  Post post = to(endpoint_of(server.port()), std::string(1000, 'x'));
  post.bytes_max = 999;
  EXPECT_EQ(code_of(calls.post(post)), ErrorCode::no_space);
  post.bytes_max = 1000;
  EXPECT_TRUE(calls.post(post));

  const RawServer undeclared("HTTP/1.1 200 OK\r\n\r\n" + std::string(1000, 'x'));
  Post other = to(undeclared.endpoint());
  other.bytes_max = 999;
  EXPECT_EQ(code_of(calls.post(other)), ErrorCode::no_space);
}

TEST(HttpClient, AllRepliesTogetherHaveALimit) {
  TestServer server;
  Calls calls({.replies_bytes_max = 100});
  EXPECT_EQ(code_of(calls.post(to(endpoint_of(server.port()), std::string(101, 'x')))),
            ErrorCode::no_space);
  // What is over no longer counts.
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(calls.post(to(endpoint_of(server.port()), std::string(90, 'x'))));
}

TEST(HttpClient, CallsBeyondTheMaximumAreBusyUntilOneIsOver) {
  TestServer server;
  Calls calls({.calls_max = 1});
  auto held = calls.begin_post(to(endpoint_of(server.port()), "hold"));
  const RequestRef id = server.wait_for(Event::Kind::rpc).id;
  EXPECT_EQ(code_of(calls.post(to(endpoint_of(server.port())))), ErrorCode::busy);
  server.reply(id, 200, "late");
  EXPECT_EQ(Calls::outcome(std::move(held.second))->body.text(), "late");
  EXPECT_TRUE(calls.post(to(endpoint_of(server.port()))));
}

TEST(HttpClient, CancelledCallIsSeenByTheServerAndHasNoOutcome) {
  TestServer server;
  Calls calls;
  auto held = calls.begin_post(to(endpoint_of(server.port()), "hold"));
  const RequestRef id = server.wait_for(Event::Kind::rpc).id;
  calls.cancel(held.first);
  EXPECT_EQ(server.wait_for(Event::Kind::gone).id, id);
  calls.cancel(held.first);  // once more does nothing
  EXPECT_EQ(calls.stats().cancelled, 1U);
  EXPECT_EQ(calls.stats().in_progress, 0U);
  EXPECT_TRUE(calls.post(to(endpoint_of(server.port()))));
  // Its callback is gone, and with it the promise.
  EXPECT_THROW((void)held.second.get(), std::future_error);
}

TEST(HttpClient, DestructionBreaksCallsOff) {
  TestServer server;
  RequestRef id{};
  {
    Calls calls;
    (void)calls.begin_post(to(endpoint_of(server.port()), "hold"));
    id = server.wait_for(Event::Kind::rpc).id;
  }
  EXPECT_EQ(server.wait_for(Event::Kind::gone).id, id);
}

TEST(HttpClient, RangedGetGivesThePartAndNoMore) {
  TestServer server;
  server.blob = "0123456789";
  Calls calls;
  RangedGet get{
      .endpoint = endpoint_of(server.port()), .path = blob_path(), .offset = 3, .size = 4};
  const Result<Answer> part = calls.get(get);
  ASSERT_TRUE(part) << part.error().message();
  EXPECT_EQ(part->status, 206);
  EXPECT_EQ(part->body.text(), "3456");
  get.offset = 10;
  EXPECT_EQ(calls.get(get)->status, 416);

  const RawServer whole("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
  get = {.endpoint = whole.endpoint(), .path = blob_path(), .offset = 3, .size = 4};
  EXPECT_EQ(code_of(calls.get(get)), ErrorCode::no_space);
}

}  // namespace
}  // namespace tenzro::http
