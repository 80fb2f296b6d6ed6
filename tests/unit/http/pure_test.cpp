// The parts of http that are functions of their arguments: addresses, tokens, hosts, ranges, heads.
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"
#include "tenzro/http/listen_address.hpp"
#include "tenzro/http/token_table.hpp"

#include "byte_range.hpp"
#include "host_list.hpp"
#include "reply_facts.hpp"
#include "reply_head.hpp"
#include "request_parser.hpp"

namespace tenzro::http {
namespace {

std::string hash_of(std::string_view token) {
  return to_hex(crypto::sha256(token));
}

TEST(ListenAddress, TakesV4V6AndLocalhost) {
  EXPECT_EQ(ListenAddress::parse("127.0.0.1:8545")->text(), "127.0.0.1:8545");
  EXPECT_EQ(ListenAddress::parse("localhost:0")->text(), "127.0.0.1:0");
  EXPECT_EQ(ListenAddress::parse("[::1]:9")->text(), "[::1]:9");
  EXPECT_TRUE(ListenAddress::parse("127.8.8.8:1")->is_loopback());
  EXPECT_TRUE(ListenAddress::parse("[::1]:1")->is_loopback());
  EXPECT_FALSE(ListenAddress::parse("0.0.0.0:1")->is_loopback());
}

TEST(ListenAddress, RefusesNamesBadPortsAndBareV6) {
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                           "127.0.0.1:80x", "example.org:80", "::1:80", "[127.0.0.1]:80", ":80"}) {
    EXPECT_FALSE(ListenAddress::parse(text)) << text;
  }
}

TEST(ContentRange, IsReadStrictly) {
  const auto part = parse_content_range("bytes 5-9/100");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->first, 5U);
  EXPECT_EQ(part->last, 9U);
  EXPECT_EQ(part->file_bytes, 100U);
  EXPECT_EQ(parse_content_range("bytes 0-0/*")->file_bytes, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */7")->file_bytes, 7U);
  EXPECT_EQ(parse_content_range("bytes */7")->first, std::nullopt);
  for (const char* bad :
       {"", "bytes", "bytes 5-9", "bytes 9-5/100", "bytes 5-100/100", "bytes -5/9", "bytes 5-/9",
        "items 0-1/2", "bytes 0-1/x", "bytes 0x1-2/3", "bytes 0-99999999999999999999/3"}) {
    EXPECT_FALSE(parse_content_range(bad)) << bad;
  }
}

TEST(RateLimit, ThatIsUsedUpSaysHowLong) {
  EXPECT_EQ(parse_rate_limit("\"default\";r=0;t=30"), 30U);
  EXPECT_EQ(parse_rate_limit("\"a\";r=0;t=30, \"b\";r=0;t=90;w=3"), 90U);
  EXPECT_EQ(parse_rate_limit("limit=100, remaining=0, reset=12"), 12U);
  EXPECT_EQ(parse_rate_limit("\"a\";r=0;t=99999999999"), 86'400U);
  for (const char* free : {"", "\"default\";r=5;t=30", "limit=100, remaining=1, reset=12", "r",
                           "\"a\";r=0", "\"a\";r=0, \"b\";t=5", "remaining=,reset=", ";;,,=;="}) {
    EXPECT_FALSE(parse_rate_limit(free)) << free;
  }
}

TEST(TokenTable, FindsATokenByItsHashAndNothingElse) {
  const auto table = TokenTable::parse(
      "# comment\n\n  ops read,admin " + hash_of("secret") + "\r\nbot execute " + hash_of("x"),
      "tokens");
  ASSERT_TRUE(table) << table.error().message();
  ASSERT_EQ(table->size(), 2U);
  const TokenTable::Entry* ops = table->find("secret");
  ASSERT_NE(ops, nullptr);
  EXPECT_EQ(ops->name, "ops");
  EXPECT_EQ(ops->scopes, (Scopes{.read = true, .execute = false, .admin = true}));
  EXPECT_EQ(table->find("secret "), nullptr);
  EXPECT_EQ(table->find(hash_of("secret")), nullptr);
  EXPECT_EQ(table->find(""), nullptr);
}

TEST(TokenTable, ErrorsNameTheLine) {
  const std::string good = "a read " + hash_of("t") + "\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good + "b read\n", "expected: name scope"},
      {good + "b root " + hash_of("u"), "unknown scope 'root'"},
      {good + "b read, " + hash_of("u"), "unknown scope ''"},
      {good + "b read " + hash_of("u") + " more", "expected: name scope"},
      {good + "b read 1234", "64 lower-case hex"},
      {good + "a read " + hash_of("u"), "line above"},
      {good + "b read " + hash_of("t"), "line above"},
  };
  for (const auto& [text, sentence] : cases) {
    const auto table = TokenTable::parse(text, "tokens");
    ASSERT_FALSE(table) << text;
    EXPECT_EQ(table.error().where, "tokens:2");
    EXPECT_NE(table.error().detail.find(sentence), std::string::npos) << table.error().detail;
  }
}

TEST(HostName, DropsThePortAndCanonicalises) {
  EXPECT_EQ(host_name("LocalHost:8545"), "localhost");
  EXPECT_EQ(host_name("node-1.example.org"), "node-1.example.org");
  EXPECT_EQ(host_name("[0:0:0:0:0:0:0:1]:80"), "::1");
  EXPECT_EQ(host_name("[::1]"), "::1");
}

TEST(HostName, RefusesWhatIsNotAHost) {
  for (const char* text : {"", ":80", "a b", "a:b", "a:1:2", "[::1", "[::1]x", "[zz]", "user@host",
                           "a:123456", "h/x", "a,b"}) {
    EXPECT_EQ(host_name(text), std::nullopt) << text;
  }
}

TEST(HostList, KnowsItsOwnNamesAndTheConfiguredOnes) {
  const auto list = HostList::make("10.1.2.3", {"Node.Example.org:99", "fe80::1"});
  ASSERT_TRUE(list);
  for (const char* name :
       {"localhost", "127.0.0.1", "::1", "10.1.2.3", "node.example.org", "fe80::1"}) {
    EXPECT_TRUE(list->allows(name, "10.1.2.3")) << name;
  }
  EXPECT_FALSE(list->allows("evil.example", "10.1.2.3"));
  EXPECT_FALSE(list->allows("10.9.9.9", "10.9.9.9"));
  EXPECT_FALSE(HostList::make("127.0.0.1", {"not a host"}));
}

TEST(HostList, OnAWildcardTheAddressOfArrivalIsAName) {
  const auto list = HostList::make("0.0.0.0", {});
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->allows("10.9.9.9", "10.9.9.9"));
  EXPECT_FALSE(list->allows("10.9.9.8", "10.9.9.9"));
}

TEST(ByteRange, FollowsTheRulesOfTheStandard) {
  using Kind = RangeChoice::Kind;

  struct Case {
    const char* header;
    std::uint64_t size;
    Kind kind;
    ByteRange range;
  };

  const std::vector<Case> cases = {
      {"", 10, Kind::whole, {0, 10}},
      {"bytes=0-0", 10, Kind::part, {0, 1}},
      {"bytes=2-5", 10, Kind::part, {2, 4}},
      {"bytes=2-", 10, Kind::part, {2, 8}},
      {"bytes=2-99999999999999999999", 10, Kind::part, {2, 8}},
      {"bytes=-3", 10, Kind::part, {7, 3}},
      {"bytes=-30", 10, Kind::part, {0, 10}},
      {"bytes=10-", 10, Kind::unsatisfiable, {}},
      {"bytes=99999999999999999999-", 10, Kind::unsatisfiable, {}},
      {"bytes=-0", 10, Kind::unsatisfiable, {}},
      {"bytes=0-", 0, Kind::unsatisfiable, {}},
      {"bytes=-1", 0, Kind::unsatisfiable, {}},
      {"bytes=5-2", 10, Kind::whole, {0, 10}},
      {"bytes=1-2,4-5", 10, Kind::whole, {0, 10}},
      {"bytes=a-b", 10, Kind::whole, {0, 10}},
      {"bytes=-", 10, Kind::whole, {0, 10}},
      {"items=0-1", 10, Kind::whole, {0, 10}},
  };
  for (const Case& c : cases) {
    const RangeChoice choice = choose_range(c.header, c.size);
    EXPECT_EQ(choice.kind, c.kind) << c.header;
    EXPECT_EQ(choice.range, c.range) << c.header;
  }
}

TEST(RequestParser, HeadMayArriveByteByByte) {
  const std::string text = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
  RequestParser parser(1024);
  std::string pending;
  std::size_t used = 0;
  for (const char c : text) {
    pending.push_back(c);
    const RequestParser::Step step = parser.feed_head(pending);
    pending.erase(0, step.consumed);
    ++used;
    if (step.outcome == RequestParser::Outcome::done) break;
    ASSERT_EQ(step.outcome, RequestParser::Outcome::need_input) << used;
  }
  EXPECT_EQ(text.substr(used), "abc");
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(parser.head().content_length, 3U);
}

/// What becomes of a head that comes `read_bytes` at a time.
RequestParser::Outcome outcome_of(std::string_view head, std::size_t read_bytes) {
  RequestParser parser(256);
  std::string pending;
  for (std::size_t at = 0; at < head.size(); at += read_bytes) {
    pending += head.substr(at, read_bytes);
    const RequestParser::Step step = parser.feed_head(pending);
    pending.erase(0, step.consumed);
    if (step.outcome != RequestParser::Outcome::need_input) return step.outcome;
  }
  return RequestParser::Outcome::need_input;
}

TEST(RequestParser, LimitOfAHeadIsTheSameHoweverItIsCut) {
  for (const std::size_t size : {255U, 256U, 257U, 300U}) {
    std::string head = "POST / HTTP/1.1\r\nHost: a\r\nB: ";
    head.append(size - head.size() - 4, 'b').append("\r\n\r\n");
    const auto wanted =
        size <= 256 ? RequestParser::Outcome::done : RequestParser::Outcome::too_large;
    for (const std::size_t read_bytes : {1U, 7U, 100U, 300U}) {
      EXPECT_EQ(outcome_of(head, read_bytes), wanted) << size << " in reads of " << read_bytes;
    }
  }
}

TEST(RequestParser, AFoldedLineIsRefusedHoweverItIsCut) {
  const std::string start = "GET / HTTP/1.1\r\n";
  for (const std::size_t read_bytes : {1U, 7U, 300U}) {
    for (const char* fields : {"Host: a\r\nB: c\r\n d\r\n\r\n", "Host: a\r\n\tb\r\n\r\n",
                               "Host: a\r\nB: c\r\n \r\n\r\n"}) {
      EXPECT_EQ(outcome_of(start + fields, read_bytes), RequestParser::Outcome::bad) << fields;
    }
    EXPECT_EQ(outcome_of(start + "Host: a\r\nB: c d \r\n\r\n", read_bytes),
              RequestParser::Outcome::done);
  }
}

/// What becomes of a chunked body that comes `read_bytes` at a time.
RequestParser::Outcome outcome_of_chunks(std::string_view body, std::size_t read_bytes) {
  RequestParser parser(256);
  EXPECT_EQ(
      parser.feed_head("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").outcome,
      RequestParser::Outcome::done);
  std::string pending;
  std::vector<std::byte> space(256);
  for (std::size_t at = 0; at < body.size(); at += read_bytes) {
    pending += body.substr(at, read_bytes);
    const RequestParser::Step step = parser.feed_chunked(pending, space);
    pending.erase(0, step.consumed);
    if (step.outcome != RequestParser::Outcome::need_input) return step.outcome;
  }
  return RequestParser::Outcome::need_input;
}

TEST(RequestParser, ABodyOfNoChunksIsReadHoweverItIsCut) {
  for (std::size_t read_bytes = 1; read_bytes < 12; ++read_bytes) {
    for (const char* body : {"0\r\n\r\n", "00\r\n\r\n", "0;a=b\r\n\r\n", "0\r\nB: c\r\n\r\n"}) {
      EXPECT_EQ(outcome_of_chunks(body, read_bytes), RequestParser::Outcome::done)
          << body << " in reads of " << read_bytes;
    }
    EXPECT_EQ(outcome_of_chunks("0\r\nB\r\n\r\n", read_bytes), RequestParser::Outcome::bad);
    EXPECT_EQ(outcome_of_chunks("zz\r\n", read_bytes), RequestParser::Outcome::bad);
  }
}

TEST(RequestParser, AFoldedTrailerIsRefusedHoweverItIsCut) {
  for (const std::size_t read_bytes : {1U, 7U, 300U}) {
    for (const std::string chunks : {"", "3\r\nabc\r\n"}) {
      for (const char* trailers : {"B: c\r\n d\r\n", "B:\r\n\tc\r\n", "B: c\r\n \r\n"}) {
        EXPECT_EQ(outcome_of_chunks(chunks + "0\r\n" + trailers + "\r\n", read_bytes),
                  RequestParser::Outcome::bad)
            << chunks << trailers;
      }
      EXPECT_EQ(outcome_of_chunks(chunks + "0\r\nB: c d \r\n\r\n", read_bytes),
                RequestParser::Outcome::done);
    }
    // A line of the body is none of the trailers'.
    EXPECT_EQ(outcome_of_chunks("4\r\n\n\n d\r\n2\r\n\n \r\n0\r\n\r\n", read_bytes),
              RequestParser::Outcome::done);
  }
}

TEST(ReplyHead, NeverSendsALineBreakInAValue) {
  const Reply reply{.status = 200, .content_type = "text/plain\r\nX: y", .body = {}, .headers = {}};
  EXPECT_DEATH((void)reply_head(reply, 0, KeepAlive::yes), "assertion failed");
}

}  // namespace
}  // namespace tenzro::http
