// What the table of conformance cannot say: limits, scopes, bytes that are no JSON string, and the
// life of an Exchange.
#include <gtest/gtest.h>

#include "tenzro/rpc/answer_size.hpp"

#include "requests.hpp"

namespace tenzro::rpc {
namespace {

using nlohmann::json;

constexpr std::string_view kStatus =
    R"({"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":1})";

std::string batch(std::size_t size, std::string_view request = kStatus) {
  std::string text = "[";
  for (std::size_t i = 0; i < size; ++i) text.append(i > 0 ? "," : "").append(request);
  return text + ']';
}

TEST(Exchange, EchoesTheIdAsItWasSent) {
  for (const char* id : {"\"\\u0041\\/\"", "-0", "18446744073709551615", "\"\xC3\xA9\""}) {
    Exchange exchange = parse(R"({"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":)" +
                              std::string(id) + '}');
    const BufferRef reply = finish(exchange);
    EXPECT_EQ(reply.text(),
              R"({"jsonrpc":"2.0","id":)" + std::string(id) + R"(,"result":{"draining":true}})");
  }
}

TEST(Exchange, TakesABatchOfTheLimitAndRefusesOneMore) {
  EXPECT_EQ(reply_to(batch(100)).size(), 100U);
  const json refused = reply_to(batch(101));
  ASSERT_TRUE(refused.is_object());
  EXPECT_EQ(refused["id"], nullptr);
  EXPECT_EQ(refused["error"]["code"], -32600);
  EXPECT_EQ(refused["error"]["message"], "a batch of 101 requests; the limit is 100");
  EXPECT_EQ(reply_to(batch(3), {.batch_max = 2})["error"]["code"], -32600);
  EXPECT_EQ(reply_to("[1,2,3]", {.batch_max = 2})["error"]["code"], -32600);
}

TEST(Exchange, RefusesDeepNestingAsUnparsable) {
  std::string body = R"({"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":1,"x":)";
  EXPECT_EQ(outcome_of(body + std::string(63, '[') + std::string(63, ']') + '}'), "ok");
  EXPECT_EQ(outcome_of(body + std::string(64, '[') + std::string(64, ']') + '}').substr(0, 6),
            "-32700");
  EXPECT_EQ(outcome_of(std::string(5'000'000, '[')).substr(0, 6), "-32700");
  EXPECT_EQ(outcome_of(kStatus, {.depth_max = 1}), "ok");
}

TEST(Exchange, RefusesMoreValuesThanTheLimit) {
  const std::string body = request("tenzro_moeExpertStatus", R"({"x":[[],[],[],[]]})");
  EXPECT_EQ(outcome_of(body, {.values_max = 11}), "ok");
  const json refused = reply_to(body, {.values_max = 9});
  EXPECT_EQ(refused["id"], nullptr);
  EXPECT_EQ(refused["error"]["code"], -32600);
}

TEST(Exchange, RefusesInvalidUtf8WithoutRepeatingIt) {
  for (const char* bytes : {"\xFF", "\xC3", "\xED\xA0\x80", "\xF8\x88\x80\x80\x80"}) {
    const std::string body =
        R"({"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":")" + std::string(bytes) + "\"}";
    Exchange exchange = parse(body);
    const BufferRef reply = finish(exchange);
    const json parsed = json::parse(reply.text());
    EXPECT_EQ(parsed["id"], nullptr);
    EXPECT_EQ(parsed["error"]["code"], -32700);
    EXPECT_EQ(reply.text().find(bytes), std::string_view::npos);
  }
}

TEST(Exchange, EchoesAtMostTwoHundredCharactersOfAClient) {
  const std::string name(100'000, 'x');
  const json reply = reply_to(request(name, "{}"));
  EXPECT_EQ(reply["error"]["message"], "unknown method: " + std::string(200, 'x') + "…");
  const std::string odd = R"(\u0000\u001b[31m\n)";
  const std::string message = reply_to(request(odd, "{}"))["error"]["message"].get<std::string>();
  EXPECT_EQ(message, R"(unknown method: \x00\x1b[31m\x0a)");
}

TEST(Exchange, AsksForTheScopeThatTheMethodNeeds) {
  const auto with = [](Scopes scopes, std::string_view method) {
    return outcome_of(request(method, R"({"model_id":"m","layer":0})"), {.scopes = scopes});
  };
  const Scopes read{.read = true};
  const Scopes execute{.execute = true};
  const Scopes admin{.admin = true};
  EXPECT_EQ(with(read, "tenzro_moeShardMap"), "ok");
  EXPECT_EQ(with(execute, "tenzro_moeShardMap"),
            "-32001: tenzro_moeShardMap: needs the scope 'read'");
  EXPECT_EQ(with(read, "tenzro_moeRoute"), "-32001: tenzro_moeRoute: needs the scope 'execute'");
  EXPECT_EQ(with(execute, "tenzro_moeRoute"), "-32602: missing d_model");
  EXPECT_EQ(with(execute, "tenzro_moeGateUnload"),
            "-32001: tenzro_moeGateUnload: needs the scope 'admin'");
  EXPECT_EQ(with(admin, "tenzro_moeGateUnload"), "ok");
  EXPECT_EQ(with(Scopes{}, "nothing"), "-32601: unknown method: nothing");
  EXPECT_EQ(with(Scopes{}, "rpc.discover"), "-32001: rpc.discover: needs the scope 'read'");
}

TEST(Exchange, RefusesANotificationWithoutItsScopeInSilence) {
  Exchange exchange =
      parse(R"({"jsonrpc":"2.0","method":"tenzro_nodeDrain"})", {.scopes = {.read = true}});
  EXPECT_FALSE(exchange.take_call(0).has_value());
  EXPECT_TRUE(exchange.is_complete());
  EXPECT_TRUE(exchange.encode(scalar_base64_kernels()).empty());
}

TEST(Exchange, GivesNotificationsToBeRunButNotAnswered) {
  Exchange exchange = parse(R"({"jsonrpc":"2.0","method":"tenzro_nodeDrain"})");
  EXPECT_FALSE(exchange.is_complete());
  ASSERT_TRUE(exchange.take_call(0).has_value());
  exchange.set_outcome(0, canned_answer());
  EXPECT_TRUE(exchange.is_complete());
  EXPECT_TRUE(exchange.encode(scalar_base64_kernels()).empty());
}

TEST(Exchange, GivesEachCallOnceAndIsCompleteWithTheLastOutcome) {
  Exchange exchange = parse('[' + std::string(kStatus) + ",{}," + std::string(kStatus) + ']');
  ASSERT_EQ(exchange.size(), 3U);
  EXPECT_EQ(exchange.method(0), "tenzro_moeExpertStatus");
  EXPECT_EQ(exchange.method(1), "");
  EXPECT_TRUE(exchange.take_call(0).has_value());
  EXPECT_FALSE(exchange.take_call(0).has_value());
  EXPECT_FALSE(exchange.take_call(1).has_value());
  EXPECT_TRUE(exchange.take_call(2).has_value());
  exchange.set_outcome(2, fail(ErrorCode::busy, "queue", "full"));
  EXPECT_FALSE(exchange.is_complete());
  exchange.set_outcome(0, canned_answer());
  ASSERT_TRUE(exchange.is_complete());
  const json reply = json::parse(exchange.encode(scalar_base64_kernels()).text());
  EXPECT_EQ(reply[0]["result"]["draining"], true);
  EXPECT_EQ(reply[1]["error"]["code"], -32600);
  EXPECT_EQ(reply[2]["error"]["code"], -32000);
  EXPECT_EQ(reply[2]["error"]["message"], "queue: full");
}

TEST(Exchange, NamesNoMethodThatDoesNotExist) {
  Exchange exchange = parse(request("made_up", "{}"));
  EXPECT_EQ(exchange.method(0), "");
}

TEST(Exchange, AnswersDiscoverItself) {
  Exchange exchange = parse(request("rpc.discover", "[]"));
  EXPECT_FALSE(exchange.take_call(0).has_value());
  ASSERT_TRUE(exchange.is_complete());
  const json reply = json::parse(exchange.encode(scalar_base64_kernels()).text());
  EXPECT_EQ(reply["result"], json::parse(open_rpc_document()));
}

TEST(Exchange, AnswersAnErrorWhereTheReplyWouldBeTooLarge) {
  Exchange exchange = parse(
      R"([{"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":1},
          {"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":2}])");
  ASSERT_TRUE(exchange.take_call(0).has_value());
  ASSERT_TRUE(exchange.take_call(1).has_value());
  exchange.set_outcome(0, FetchBlobAnswer{BufferRef::copy_of(std::string_view("abc"))});
  // Never touched: it takes no memory.
  exchange.set_outcome(1, FetchBlobAnswer{BufferRef::allocate(kReplyBytesMax)});
  EXPECT_LE(exchange.reply_bytes(), kReplyBytesMax);
  const BufferRef text = exchange.encode(scalar_base64_kernels());
  const json reply = json::parse(text.text());
  EXPECT_EQ(reply[0]["result"]["bytes_b64"], "YWJj");
  EXPECT_EQ(reply[1]["error"]["code"], -32000);
  EXPECT_NE(reply[1]["error"]["message"].get<std::string>().find("may take 402653184"),
            std::string::npos)
      << reply[1];
}

TEST(Exchange, AnswerThatHasNoRoomNowIsBusyAndWhatIsThereStays) {
  Exchange exchange = parse(
      R"([{"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":1},
          {"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":2},
          {"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":3}])",
      {.reply_bytes_max = 100'000});
  for (std::size_t i = 0; i < exchange.size(); ++i) ASSERT_TRUE(exchange.take_call(i).has_value());
  constexpr std::size_t room = 40'000;
  exchange.set_outcome(0, FetchBlobAnswer{BufferRef::copy_of(std::string(20'000, 'x'))}, room);
  const std::size_t bytes = exchange.reply_bytes();
  exchange.set_outcome(1, FetchBlobAnswer{BufferRef::copy_of(std::string(20'000, 'x'))}, room);
  exchange.set_outcome(2, fail(ErrorCode::runtime, "", "no"), 1);
  EXPECT_EQ(exchange.reply_bytes(), bytes);
  const BufferRef text = exchange.encode(scalar_base64_kernels());
  const json reply = json::parse(text.text());
  EXPECT_TRUE(reply[0].contains("result"));
  EXPECT_EQ(reply[1]["error"]["code"], json_rpc_code(ErrorCode::busy));
  EXPECT_EQ(reply[2]["error"]["message"], "no");
}

TEST(Exchange, IdsCountAsWhatTheReplyTakesAndTooLongOnesAreRefused) {
  const std::string id(1000, 'i');
  const auto one = [&](const std::string& method) {
    return R"({"jsonrpc":"2.0","id":")" + id + R"(","method":")" + method + R"("})";
  };
  Exchange exchange = parse("[" + one("tenzro_moeExpertStatus") + "," + one("nope") + "," +
                                one("tenzro_moeExpertStatus") + "]",
                            {.reply_bytes_max = 2500});
  EXPECT_GE(exchange.reply_bytes(), 2000U);
  EXPECT_LE(exchange.reply_bytes(), 2500U);
  EXPECT_TRUE(exchange.take_call(0).has_value());
  EXPECT_FALSE(exchange.take_call(2).has_value());
  exchange.set_outcome(0, fail(ErrorCode::runtime, "", "no"));
  const BufferRef text = exchange.encode(scalar_base64_kernels());
  const json reply = json::parse(text.text());
  EXPECT_EQ(reply[1]["id"], id);
  EXPECT_EQ(reply[2]["id"], nullptr);
  EXPECT_EQ(reply[2]["error"]["code"], -32600);
}

TEST(Exchange, SchemasBeyondWhatTheReplyMayTakeAreErrorsForGood) {
  const std::string one = request("rpc.discover", "[]");
  Exchange exchange = parse("[" + one + "," + one + "]", {.reply_bytes_max = 100'000});
  ASSERT_TRUE(exchange.is_complete());
  const BufferRef text = exchange.encode(scalar_base64_kernels());
  const json reply = json::parse(text.text());
  EXPECT_TRUE(reply[0].contains("result"));
  EXPECT_EQ(reply[1]["error"]["code"], -32000);
}

TEST(ErrorCodes, MapToTheCodesOfTheReference) {
  const std::pair<ErrorCode, int> table[] = {
      {ErrorCode::parse_error, -32700},    {ErrorCode::invalid_request, -32600},
      {ErrorCode::unknown_method, -32601}, {ErrorCode::invalid_params, -32602},
      {ErrorCode::internal, -32603},       {ErrorCode::infrastructure, -32000},
      {ErrorCode::not_found, -32000},      {ErrorCode::io, -32000},
      {ErrorCode::no_space, -32000},       {ErrorCode::busy, -32000},
      {ErrorCode::cancelled, -32000},      {ErrorCode::runtime, -32004},
      {ErrorCode::forbidden, -32001}};
  for (const auto& [code, expected] : table) EXPECT_EQ(json_rpc_code(code), expected);
}

TEST(ErrorReply, IsACompleteReplyWithIdNull) {
  const json reply = json::parse(error_reply({ErrorCode::busy, "", "queue \"full\"\n\xFF"}));
  EXPECT_EQ(reply, json::parse(R"({"jsonrpc":"2.0","id":null,"error":{"code":-32000,)"
                               "\"message\":\"queue \\\"full\\\"\\n\xEF\xBF\xBD\"}}"));
}

}  // namespace
}  // namespace tenzro::rpc
