// One request, one status: what the server accepts, what it refuses, and how.
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"

#include "harness.hpp"

namespace tenzro::http {
namespace {

constexpr std::string_view kJson = "Content-Type: application/json\r\n";

struct Case {
  const char* name;
  std::string request;
  int status;
};

std::string head(std::string_view first_line, std::string_view lines) {
  return std::string(first_line) + "\r\n" + std::string(lines) + "\r\n";
}

std::string blob_path() {
  return "/blob/" + std::string(64, 'a');
}

std::vector<Case> cases() {
  const std::string host = "Host: localhost\r\n";
  const std::string json = host + std::string(kJson);
  const std::string chunked = json + "Transfer-Encoding: chunked\r\n";
  return {
      {"Post", post("{}"), 200},
      {"PostWithACharset",
       head("POST / HTTP/1.1", host + "Content-Type: Application/JSON ; charset=utf-8\r\n"
                                      "Content-Length: 0\r\n"),
       200},
      {"PostWithoutALengthIsAnEmptyBody", head("POST / HTTP/1.1", json), 200},
      {"PostWithAQuery", head("POST /?a=b HTTP/1.1", json), 200},
      {"PostInAbsoluteForm", head("POST http://localhost:1/ HTTP/1.1", json), 200},
      {"PostInAbsoluteFormOfAStranger", head("POST http://evil.example/ HTTP/1.1", json), 403},
      {"PostChunked", head("POST / HTTP/1.1", chunked) + "2\r\nab\r\n3;x=y\r\ncde\r\n0\r\n\r\n",
       200},
      {"PostWithAPort", head("POST / HTTP/1.1", "Host: 127.0.0.1:8545\r\n" + std::string(kJson)),
       200},
      {"PostToAV6Literal", head("POST / HTTP/1.1", "Host: [::1]:8545\r\n" + std::string(kJson)),
       200},
      {"PostFromHttp10WithoutHost", head("POST / HTTP/1.0", kJson), 200},
      {"Notification", post("notify"), 204},
      {"BlankLinesBeforeARequest", "\r\n\r\n" + post("{}"), 200},
      {"NoHost", head("POST / HTTP/1.1", kJson), 400},
      {"EmptyHost", head("POST / HTTP/1.1", "Host:\r\n" + std::string(kJson)), 400},
      {"TwoHosts", head("POST / HTTP/1.1", host + json), 400},
      {"MalformedHost", head("POST / HTTP/1.1", "Host: a b\r\n" + std::string(kJson)), 400},
      {"StrangeHost", head("POST / HTTP/1.1", "Host: evil.example\r\n" + std::string(kJson)), 403},
      {"StrangeHostForHealth", head("GET /healthz HTTP/1.1", "Host: evil.example\r\n"), 403},
      {"NoContentType", head("POST / HTTP/1.1", host), 415},
      {"FormContentType", head("POST / HTTP/1.1", host + "Content-Type: text/plain\r\n"), 415},
      {"LongerContentType", head("POST / HTTP/1.1", host + "Content-Type: application/jsonx\r\n"),
       415},
      {"CompressedBody", head("POST / HTTP/1.1", json + "Content-Encoding: gzip\r\n"), 415},
      {"GetOfRpc", get("/"), 405},
      {"OptionsOfRpc", head("OPTIONS / HTTP/1.1", host + "Origin: http://evil.example\r\n"), 405},
      {"PostOfHealth", head("POST /healthz HTTP/1.1", host), 405},
      {"GetOfUpload", get("/blob"), 405},
      {"DeleteOfBlob", head("DELETE " + blob_path() + " HTTP/1.1", host), 405},
      {"UnknownPath", get("/nowhere"), 404},
      {"PathAboveTheRoot", get("/../etc/passwd"), 404},
      {"BlobWithAShortHash", get("/blob/abc"), 404},
      {"BlobWithAnUpperCaseHash", get("/blob/" + std::string(64, 'A')), 404},
      {"AsteriskTarget", head("OPTIONS * HTTP/1.1", host), 404},
      {"Health", get("/healthz"), 200},
      {"HealthWithAQuery", get("/healthz?verbose"), 200},
      {"Ready", get("/readyz"), 200},
      {"Metrics", get("/metrics"), 200},
      {"HeadOfMetrics", head("HEAD /metrics HTTP/1.1", host), 200},
      {"HeadOfRpc", head("HEAD / HTTP/1.1", host), 405},
      {"UnknownCoding", head("POST / HTTP/1.1", json + "Transfer-Encoding: gzip, chunked\r\n"),
       501},
      {"ChunkedInHttp10",
       head("POST / HTTP/1.0", std::string(kJson) + "Transfer-Encoding: chunked\r\n"), 400},
      {"LengthAndChunks", head("POST / HTTP/1.1", chunked + "Content-Length: 3\r\n"), 400},
      {"TwoLengths", head("POST / HTTP/1.1", json + "Content-Length: 3\r\nContent-Length: 4\r\n"),
       400},
      {"NegativeLength", head("POST / HTTP/1.1", json + "Content-Length: -1\r\n"), 400},
      {"LengthBeyond64Bits",
       head("POST / HTTP/1.1", json + "Content-Length: 99999999999999999999\r\n"), 400},
      {"LengthAboveTheLimit", head("POST / HTTP/1.1", json + "Content-Length: 1048577\r\n"), 413},
      {"ChunkAboveTheLimit", head("POST / HTTP/1.1", chunked) + "100001\r\n", 413},
      {"ChunkSizeThatIsNotHex", head("POST / HTTP/1.1", chunked) + "zz\r\n", 400},
      {"ChunkWithoutItsLineEnd", head("POST / HTTP/1.1", chunked) + "2\r\nabXX0\r\n\r\n", 400},
      {"ChunkExtensionWithoutEnd",
       head("POST / HTTP/1.1", chunked) + "1;" + std::string(40000, 'x'), 400},
      {"UnknownExpectation", head("POST / HTTP/1.1", json + "Expect: miracles\r\n"), 417},
      {"HeaderAboveTheLimit",
       head("GET /healthz HTTP/1.1", host + "X: " + std::string(17000, 'y') + "\r\n"), 431},
      {"TargetAboveTheLimit", get("/" + std::string(17000, 'y')), 431},
      {"HeaderBelowTheLimit",
       head("GET /healthz HTTP/1.1", host + "X: " + std::string(15000, 'y') + "\r\n"), 200},
      {"Http09", "GET /\r\n\r\n", 400},
      {"Http2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"Garbage", std::string("\x01\x02\x03 nonsense\r\n\r\n"), 400},
      {"TlsHello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n",
       400},
      {"ControlCharacterInTheTarget", get("/\x01"), 400},
      {"SpaceBeforeTheColon", head("GET /healthz HTTP/1.1", host + "X : y\r\n"), 400},
      {"TwoAuthorizations",
       head("POST / HTTP/1.1", json + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"),
       400},
  };
}

class RequestTable : public testing::TestWithParam<Case> {};

TEST_P(RequestTable, GetsItsStatusAndNoCrossOriginHeader) {
  TestServer server(options_with([](Options& o) { o.body_bytes_max = 1U << 20U; }));
  const Response response = ask(server.port(), GetParam().request);
  EXPECT_EQ(response.status, GetParam().status) << response.body;
  for (const auto& [name, value] : response.headers) {
    EXPECT_NE(name.substr(0, 14), "Access-Control") << value;
  }
  EXPECT_EQ(response.headers.count("Allow"), response.status == 405 ? 1U : 0U);
  const bool has_error_body =
      response.body.find(R"({"jsonrpc":"2.0","id":null,"error":{"code":-32)") == 0;
  EXPECT_EQ(has_error_body, response.status >= 400 && GetParam().request.substr(0, 4) != "HEAD");
}

INSTANTIATE_TEST_SUITE_P(All, RequestTable, testing::ValuesIn(cases()),
                         [](const auto& param) { return std::string(param.param.name); });

std::string bearer(std::string_view token) {
  return "Authorization: Bearer " + std::string(token) + "\r\n";
}

Options with_tokens() {
  Options options;
  std::string text;
  for (const char* scope : {"read", "execute", "admin"}) {
    text += std::string(scope) + " " + scope + " " + to_hex(crypto::sha256(scope)) + "\n";
  }
  options.tokens = *TokenTable::parse(text, "tokens");
  return options;
}

TEST(Tokens, ScopesOfARequestAreThoseOfItsToken) {
  TestServer server(with_tokens());
  ASSERT_EQ(ask(server.port(), post("hi", bearer("execute"))).status, 200);
  const Event known = server.wait_for(Event::Kind::rpc);
  EXPECT_EQ(known.caller.scopes, (Scopes{.read = false, .execute = true, .admin = false}));
  EXPECT_EQ(known.caller.token_name, "execute");
  EXPECT_TRUE(known.caller.is_loopback);

  ASSERT_EQ(ask(server.port(), post("hi", bearer("wrong"))).status, 200);
  EXPECT_EQ(server.wait_for(Event::Kind::rpc).caller.scopes, Scopes{});
  ASSERT_EQ(ask(server.port(), post("hi")).status, 200);
  EXPECT_EQ(server.wait_for(Event::Kind::rpc).caller.scopes, Scopes{});
  ASSERT_EQ(ask(server.port(), post("hi", "Authorization: Basic read\r\n")).status, 200);
  EXPECT_EQ(server.wait_for(Event::Kind::rpc).caller.scopes, Scopes{});
}

TEST(Tokens, WithoutATableEveryCallerHasEveryScope) {
  TestServer server;
  ASSERT_EQ(ask(server.port(), post("hi")).status, 200);
  EXPECT_EQ(server.wait_for(Event::Kind::rpc).caller.scopes, kAllScopes);
}

TEST(Tokens, MetricsNeedReadAndUploadsNeedAdminWhileHealthNeedsNothing) {
  TestServer server(with_tokens());
  const std::uint16_t port = server.port();
  EXPECT_EQ(ask(port, get("/healthz")).status, 200);
  EXPECT_EQ(ask(port, get("/readyz")).status, 200);
  const Response anonymous = ask(port, get("/metrics"));
  EXPECT_EQ(anonymous.status, 401);
  EXPECT_EQ(anonymous.headers.at("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(ask(port, get("/metrics", bearer("execute"))).status, 403);
  EXPECT_EQ(ask(port, get("/metrics", bearer("read"))).status, 200);
  const std::string put = "PUT /blob HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n";
  EXPECT_EQ(ask(port, put + "\r\nx").status, 401);
  EXPECT_EQ(ask(port, put + bearer("read") + "\r\nx").status, 403);
  EXPECT_EQ(ask(port, put + bearer("admin") + "\r\nx").status, 201);
}

TEST(Callers, ASignatureOfAnotherNodeIsHandedOn) {
  TestServer server;
  ASSERT_EQ(ask(server.port(), post("hi",
                                    "X-Tenzro-Node: n\r\nX-Tenzro-Time: 7\r\n"
                                    "x-tenzro-signature: s\r\n"))
                .status,
            200);
  const Event event = server.wait_for(Event::Kind::rpc);
  ASSERT_TRUE(event.caller.node);
  EXPECT_EQ(event.caller.node->node, "n");
  EXPECT_EQ(event.caller.node->time, "7");
  EXPECT_EQ(event.caller.node->signature, "s");
  EXPECT_EQ(event.caller.node->path, "/");
}

}  // namespace
}  // namespace tenzro::http
