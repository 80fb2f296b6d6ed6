// Who a URL names, where parsers are apt to differ.
#include "tenzro/base/url.hpp"

#include <string>

#include <gtest/gtest.h>

namespace tenzro {
namespace {

TEST(Url, HasItsPartsInLowerCaseWithThePortOfItsScheme) {
  const auto url = parse_url("https://Files.Example/A/b?c=d");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->is_tls);
  EXPECT_EQ(url->host, "files.example");
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(url->rest, "/A/b?c=d");
  EXPECT_EQ(url->origin(), "https://files.example:443");
  EXPECT_EQ(parse_url("http://[::1]:9")->origin(), "http://[::1]:9");
}

TEST(Url, WhatNamesNoHostOrMoreThanOneIsRefused) {
  for (const char* bad :
       {"", "h", "ftp://h", "https://", "https://:80/", "https://h:", "https://h:0/",
        "https://h:65536/", "https://h:8o/", "https://u@h/", "https://u:p@h/", "https://h/#a",
        "https://h /", "https://h\\e/", "https://[::1/", "https://[]/", "https://h_\x7f/"}) {
    EXPECT_FALSE(parse_url(bad)) << bad;
  }
}

TEST(Url, ThisMachineIsKnownByItsWholeNameAndNotByABeginning) {
  for (const char* here : {"http://localhost/", "http://LOCALHOST:1/", "http://127.0.0.1/",
                           "https://127.255.255.254:443/a", "http://[::1]:8545/"}) {
    const auto url = parse_url(here);
    EXPECT_TRUE(url && is_loopback_host(url->host)) << here;
  }
  for (const char* elsewhere :
       {"http://127.0.0.1.example.org/", "http://localhost.example.org/", "http://127.example/",
        "http://[::1:2]/", "http://128.0.0.1/", "http://localhost./", "http://127.0.0.1x/"}) {
    const auto url = parse_url(elsewhere);
    EXPECT_TRUE(url && !is_loopback_host(url->host)) << elsewhere;
  }
}

TEST(Url, AnAddressInNumbersIsFourOfThemWithoutLeadingZerosAndNothingElse) {
  for (const char* odd : {"0127.0.0.1",   "127.0.0.01",  "127.00.0.1",  "0177.0.0.1",
                          "127.1",        "127.0.1",     "2130706433",  "0x7f.1",
                          "0x7f000001",   "0X7F.0.0.1",  "127.0.0.0x1", "0x7f.0x0.0x0.0x1",
                          "017700000001", "0",           "0x",          "127.0.0.256",
                          "127.0.0",      "127.0.0.1.1", "127.0.0.1.",  "1.2.3.4.",
                          "a.1",          "a.0x",        "localhost.1"}) {
    EXPECT_FALSE(parse_url("http://" + std::string(odd) + "/")) << odd;
    EXPECT_FALSE(parse_url("https://" + std::string(odd) + ":443/x")) << odd;
    EXPECT_FALSE(is_loopback_host(odd)) << odd;
  }
  for (const char* plain : {"127.0.0.1", "10.0.0.200", "0.0.0.0", "255.255.255.255", "1.a", "a.0xg",
                            "1e100.net", "7.example", "example.a1", "0x7f.example"}) {
    EXPECT_TRUE(parse_url("http://" + std::string(plain) + "/")) << plain;
  }
}

}  // namespace
}  // namespace tenzro
