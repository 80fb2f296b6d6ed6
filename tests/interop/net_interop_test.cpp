// The endpoint against a stock foreign one (iroh): it dials us, and we dial it, over tenzro/moe.
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <gtest/gtest.h>

#include "tenzro/net/endpoint.hpp"

#include "child.hpp"

namespace tenzro::net {
namespace {

using interop::Child;

constexpr auto kPatience = std::chrono::seconds(40);

std::string hex_of(const EndpointId& id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : id) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

EndpointId id_of(const std::string& hex) {
  EndpointId id{};
  for (std::size_t i = 0; i < id.size() && 2 * i + 1 < hex.size(); ++i) {
    id[i] = static_cast<std::uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

class InteropTest : public testing::Test, public Handler {
 protected:
  void SetUp() override {
    if (!interop::has_packages()) {
      GTEST_SKIP() << "no npm packages in tests/interop: npm install there";
    }
    auto made = Endpoint::listen(loop_, key_, {.listen = "127.0.0.1:0"}, *this);
    ASSERT_TRUE(made) << made.error().message();
    endpoint_ = std::move(*made);
  }

  void on_reply(PeerCallId, Result<Reply> reply) override { reply_ = std::move(reply); }

  void on_request(Request request) override {
    callers_.push_back(hex_of(request.from));
    endpoint_->reply(request.id, {request.bytes});
  }

  void on_request_cancelled(PeerRequestId) override {}

  [[nodiscard]] bool run_until(const std::function<bool()>& is_true) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!is_true()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.context().run_one_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  /// The child's next line, while our endpoint is served.
  [[nodiscard]] std::string line_of(Child& child) {
    std::optional<std::string> line;
    EXPECT_TRUE(run_until([&] {
      line = child.line();
      return line.has_value();
    }));
    return line.value_or("nothing");
  }

  void expect_echo_to_stock_dialler(const std::string& bytes) {
    const std::string address = endpoint_->address();
    Child child("dial.mjs",
                {hex_of(key_.public_key()), address.substr(address.rfind(':') + 1), bytes});
    const std::string id = line_of(child);
    EXPECT_EQ(line_of(child), "same");
    EXPECT_EQ(callers_, (std::vector<std::string>{id, id}));
  }

  exec::Loop loop_;
  crypto::KeyPair key_ = crypto::KeyPair::from_seed({1, 2, 3});
  std::unique_ptr<Endpoint> endpoint_;
  std::optional<Result<Reply>> reply_;
  std::vector<std::string> callers_;
};

TEST_F(InteropTest, StockEndpointDialsOurs) {
  expect_echo_to_stock_dialler("20");
}

TEST_F(InteropTest, StockEndpointSendsAndTakesTheLargestFrame) {
  expect_echo_to_stock_dialler(std::to_string(wire::kMoeFrameBytesMax + 4));
}

TEST_F(InteropTest, OurEndpointDialsAStockOne) {
  Child child("serve.mjs", {});
  const EndpointId id = id_of(line_of(child));
  const std::string address = line_of(child);
  std::string text(1 << 20, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  endpoint_->call(PeerCallId{1}, {.id = id, .addresses = {address}}, wire::Protocol::moe,
                  {BufferRef::copy_of(text)});
  ASSERT_TRUE(run_until([&] { return reply_.has_value(); }));
  ASSERT_TRUE(*reply_) << reply_->error().message();
  EXPECT_EQ((*reply_)->from, id);
  EXPECT_TRUE((*reply_)->bytes.text() == text);
}

TEST_F(InteropTest, StockEndpointUnderAnotherIdIsForbidden) {
  Child child("serve.mjs", {});
  EndpointId id = id_of(line_of(child));
  const std::string address = line_of(child);
  id[0] ^= 1U;
  endpoint_->call(PeerCallId{1}, {.id = id, .addresses = {address}}, wire::Protocol::moe,
                  {BufferRef::copy_of("hello")});
  ASSERT_TRUE(run_until([&] { return reply_.has_value(); }));
  ASSERT_FALSE(*reply_);
  EXPECT_EQ(reply_->error().code, ErrorCode::forbidden);
}

}  // namespace
}  // namespace tenzro::net
