// Goal: what leaves is signed by this node, and every status becomes what the node understands.
// Method: the project's own server on loopback, whose handler checks the signature.
#include "http_caller.hpp"

#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "tenzro/crypto/http_signature.hpp"
#include "tenzro/http/server.hpp"

#include "support/loop_thread.hpp"

namespace tenzro::daemon {
namespace {

constexpr std::chrono::seconds kPatience{20};

/// Answers a body by its first three letters, a status; "hold" keeps it. Refuses (401) what is not
/// signed by `expected`.
class Peer final : public http::Handler {
 public:
  explicit Peer(exec::Loop& loop, const EndpointId& expected) : expected_(expected) {
    http::Options options;
    options.listen.port = 0;
    auto server = http::Server::listen(loop, std::move(options), *this);
    if (server) server_ = std::move(*server);
  }

  [[nodiscard]] std::string endpoint() const { return "http://" + server_->address().text(); }

  void on_rpc(http::RequestRef id, BufferRef body, const http::Caller& caller) override {
    using std::chrono::system_clock;
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch());
    const auto& node = caller.node;
    const bool is_signed =
        node && crypto::verify_http({node->node, node->time, node->signature},
                                    {"POST", node->path, body.bytes()}, now.count()) == expected_;
    if (body.text().starts_with("hold")) return held_.set_value();
    const int status = is_signed ? std::stoi(std::string(body.text().substr(0, 3))) : 401;
    server_->reply(id, {.status = status, .content_type = "text/plain", .body = std::move(body)});
  }

  void on_page(http::RequestRef /*id*/, http::Page /*page*/) override {}

  void on_blob(http::RequestRef /*id*/, const BlobHash& /*hash*/,
               const http::Caller& /*caller*/) override {}

  void on_blob_piece_wanted(http::RequestRef /*id*/, const BlobHash& /*hash*/,
                            std::uint64_t /*offset*/, std::size_t /*size*/) override {}

  void on_put_begun(http::RequestRef /*id*/, std::optional<std::uint64_t> /*size*/) override {}

  void on_put_piece(http::RequestRef /*id*/, BufferRef /*piece*/) override {}

  void on_put_ended(http::RequestRef /*id*/) override {}

  void on_request_gone(http::RequestRef /*id*/) override { gone_.set_value(); }

  [[nodiscard]] bool holds_one() {
    return held_.get_future().wait_for(kPatience) == std::future_status::ready;
  }

  [[nodiscard]] bool saw_the_caller_leave() {
    return gone_.get_future().wait_for(kPatience) == std::future_status::ready;
  }

 private:
  EndpointId expected_;
  std::unique_ptr<http::Server> server_;
  std::promise<void> held_;
  std::promise<void> gone_;
};

class HttpCallerTest : public ::testing::Test {
 protected:
  HttpCallerTest() {
    thread_.run([this] {
      client_ = std::make_unique<http::Client>(thread_.loop());
      caller_ = std::make_unique<HttpCaller>(
          thread_.loop(), pool_, key_, *client_,
          [this](PeerCallId, const work::CallResult& result) { answer_.set_value(result); });
      peer_ = std::make_unique<Peer>(thread_.loop(), key_.public_key());
    });
  }

  ~HttpCallerTest() override {
    thread_.run([this] {
      caller_.reset();
      client_.reset();
      peer_.reset();
    });
  }

  void begin(std::string_view body) {
    thread_.run([&] {
      caller_->call({PeerCallId{++last_}, peer_->endpoint(), BufferRef::copy_of(body)});
    });
  }

  work::CallResult ask(std::string_view body) {
    answer_ = {};
    auto answer = answer_.get_future();
    begin(body);
    if (answer.wait_for(kPatience) != std::future_status::ready)
      return fail(ErrorCode::internal, "", "no answer");
    return answer.get();
  }

  testing::LoopThread thread_;
  exec::Pool pool_{{.threads = 1}};
  crypto::KeyPair key_ = crypto::KeyPair::from_seed(crypto::Seed{7});
  std::unique_ptr<http::Client> client_;
  std::unique_ptr<HttpCaller> caller_;
  std::unique_ptr<Peer> peer_;
  std::uint64_t last_ = 0;
  std::promise<work::CallResult> answer_;
};

TEST_F(HttpCallerTest, SmallAndLargeBodiesAreSignedAndAnswered) {
  for (const std::size_t size : {std::size_t{3}, std::size_t{1'000'000}}) {
    std::string body(size, 'x');
    body.replace(0, 3, "200");
    const work::CallResult answer = ask(body);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_TRUE(answer->bytes.text() == body);
    EXPECT_EQ(answer->from, EndpointId{}) << "nothing proves who answered";
  }
}

TEST_F(HttpCallerTest, StatusesBecomeErrors) {
  const auto code_of = [&](std::string_view body) {
    const work::CallResult answer = ask(body);
    return answer ? ErrorCode::internal : answer.error().code;
  };
  EXPECT_EQ(code_of("503"), ErrorCode::busy);
  for (const char* status : {"401", "403"})
    EXPECT_EQ(code_of(status), ErrorCode::runtime) << status << " is a refusal";
  for (const char* status : {"301", "400", "404", "413", "500"})
    EXPECT_EQ(code_of(status), ErrorCode::io) << status;
}

TEST_F(HttpCallerTest, CancelledCallLeavesThePeer) {
  begin("hold");
  ASSERT_TRUE(peer_->holds_one());
  thread_.run([this] {
    caller_->cancel(PeerCallId{1});
    caller_->cancel(PeerCallId{1});
    caller_->cancel(PeerCallId{99});
  });
  EXPECT_TRUE(peer_->saw_the_caller_leave());
  EXPECT_EQ(ask("200")->bytes.text(), "200");
}

}  // namespace
}  // namespace tenzro::daemon
