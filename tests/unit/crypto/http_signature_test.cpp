#include "tenzro/crypto/http_signature.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"

namespace tenzro::crypto {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;

struct Signed {
  KeyPair key = KeyPair::from_seed(Seed{5});
  std::string method = "POST";
  std::string path = "/";
  std::string body = R"({"jsonrpc":"2.0"})";
  HttpSignature headers = sign_http(key, request(), kNow);

  [[nodiscard]] HttpRequest request() const {
    return {method, path, std::as_bytes(std::span(body))};
  }
};

TEST(HttpSignature, GoodOneTellsWhoSigned) {
  const Signed made;
  const auto node = verify_http(made.headers, made.request(), kNow);
  ASSERT_TRUE(node);
  EXPECT_EQ(*node, made.key.public_key());
  EXPECT_EQ(made.headers.node, to_hex(made.key.public_key()));
  EXPECT_EQ(made.headers.time, "1800000000");
  EXPECT_EQ(made.headers.signature.size(), 88U);
}

TEST(HttpSignature, HoldsForAMinuteEitherWay) {
  const Signed made;
  for (const std::int64_t skew : {-60, 60}) {
    EXPECT_TRUE(verify_http(made.headers, made.request(), kNow + skew)) << skew;
  }
  for (const std::int64_t skew : {-61, 61}) {
    const auto node = verify_http(made.headers, made.request(), kNow + skew);
    ASSERT_FALSE(node) << skew;
    EXPECT_EQ(node.error().code, ErrorCode::forbidden);
  }
}

TEST(HttpSignature, AnythingElseIsRefused) {
  const std::vector<std::function<void(Signed&)>> bends{
      [](Signed& s) { s.body += ' '; },
      [](Signed& s) { s.path = "/rpc"; },
      [](Signed& s) { s.method = "GET"; },
      [](Signed& s) { s.headers.time = "1800000001"; },
      [](Signed& s) { s.headers.time = "01800000000"; },
      [](Signed& s) { s.headers.time = "+1800000000"; },
      [](Signed& s) { s.headers.time = "-1"; },
      [](Signed& s) { s.headers.time = "99999999999999999999"; },
      [](Signed& s) { s.headers.time.clear(); },
      [](Signed& s) { s.headers.node[0] = 'G'; },
      [](Signed& s) { s.headers.node.pop_back(); },
      [](Signed& s) { s.headers.node = to_hex(KeyPair::from_seed(Seed{6}).public_key()); },
      [](Signed& s) { s.headers.signature[3] = s.headers.signature[3] == 'A' ? 'B' : 'A'; },
      [](Signed& s) { s.headers.signature.pop_back(); },
      [](Signed& s) { s.headers.signature.clear(); }};
  for (std::size_t i = 0; i < bends.size(); ++i) {
    Signed made;
    bends[i](made);
    const auto node = verify_http(made.headers, made.request(), kNow);
    ASSERT_FALSE(node) << i;
    EXPECT_EQ(node.error().code, ErrorCode::forbidden);
  }
}

}  // namespace
}  // namespace tenzro::crypto
