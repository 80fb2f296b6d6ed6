// What a peer may call its HTTP endpoint.
#include "tenzro/http/endpoint.hpp"

#include <gtest/gtest.h>

namespace tenzro::http {
namespace {

TEST(Endpoint, ReadsSchemeHostAndPortAndWritesThemAgain) {
  for (const char* text : {"http://127.0.0.1:8545", "https://node-1.example.org:443",
                           "http://[2001:db8::1]:1", "http://a_b:65535"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(endpoint->text(), text);
  }
  const auto endpoint = Endpoint::parse("https://[::1]:8545");
  ASSERT_TRUE(endpoint);
  EXPECT_TRUE(endpoint->is_tls);
  EXPECT_EQ(endpoint->host, "::1");
  EXPECT_EQ(endpoint->port, 8545);
}

TEST(Endpoint, RefusesEverythingElse) {
  for (const char* text : {"",
                           "127.0.0.1:1",
                           "ftp://a:1",
                           "file:///etc/passwd",
                           "HTTP://a:1",
                           "http://",
                           "http://a",
                           "http://a:",
                           "http://:1",
                           "http://a:0",
                           "http://a:65536",
                           "http://a:01",
                           "http://a:-1",
                           "http://a:1/",
                           "http://a:1/path",
                           "http://a:1?q",
                           "http://a:1#f",
                           "http://u@a:1",
                           "http://u:p@a:1",
                           "http://a b:1",
                           "http://a\r\nb:1",
                           "http://[::1]",
                           "http://[::1:1",
                           "http://[a.b]g:1",
                           "http://[abc]:1",
                           "http://[::1%eth0]:1",
                           "http://a:1 ",
                           " http://a:1",
                           "http://%41:1",
                           "gopher://a:70",
                           "http://a:1:2"}) {
    EXPECT_FALSE(Endpoint::parse(text)) << text;
  }
  EXPECT_FALSE(Endpoint::parse("http://" + std::string(254, 'a') + ":1"));
}

TEST(Endpoint, RefusalNamesTheTextShortened) {
  const auto refused = Endpoint::parse("gopher://" + std::string(10'000, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_LT(refused.error().message().size(), 400U);
}

}  // namespace
}  // namespace tenzro::http
