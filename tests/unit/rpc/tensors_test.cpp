// Tensors in requests: rows as base64, as numbers and as Q8_0 blocks.
#include <bit>
#include <limits>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

#include "call_text.hpp"
#include "requests.hpp"

namespace tenzro::rpc {
namespace {

using Floats = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

std::string route(std::string_view rest, int d_model = 2) {
  return R"({"model_id":"m","layer":1,"d_model":)" + std::to_string(d_model) + ',' +
         std::string(rest) + '}';
}

std::string execute(std::string_view token_indices, std::string_view rest, int d_model = 2) {
  return R"({"model_id":"m","layer":1,"expert":2,"d_model":)" + std::to_string(d_model) +
         R"(,"token_indices":)" + std::string(token_indices) + std::string(rest) + '}';
}

std::string states(const Floats& values, std::string_view name = "hidden_states") {
  return '"' + std::string(name) + R"(":")" + base64_of(values) + '"';
}

/// One Q8_0 block: f16 scale bits, then 32 values.
std::vector<std::uint8_t> block(std::uint16_t scale, std::int8_t first = 1, std::int8_t rest = 0) {
  std::vector<std::uint8_t> bytes(34, static_cast<std::uint8_t>(rest));
  bytes[0] = static_cast<std::uint8_t>(scale);
  bytes[1] = static_cast<std::uint8_t>(scale >> 8U);
  bytes[2] = static_cast<std::uint8_t>(first);
  return bytes;
}

std::string q8(const std::vector<std::vector<std::uint8_t>>& blocks) {
  std::vector<std::uint8_t> all;
  for (const auto& each : blocks) all.insert(all.end(), each.begin(), each.end());
  return R"(,"hidden_q8":")" + base64_of(all) + '"';
}

TEST(Route, ReadsRowsFromBase64AndFromNumbersAlike) {
  const Floats values{1, -2.5F, 0, 3.75F};
  const auto packed = call_of<RouteCall>("tenzro_moeRoute", route(states(values)));
  EXPECT_EQ(packed.hidden.count, 2U);
  EXPECT_EQ(packed.hidden.width, 2U);
  EXPECT_EQ(floats_of(packed.hidden.data), values);
  EXPECT_EQ(packed.top_k, std::nullopt);
  EXPECT_EQ(packed.token_ids, std::nullopt);
  EXPECT_FALSE(packed.router_hidden.has_value());
  const auto numbers =
      call_of<RouteCall>("tenzro_moeRoute", route(R"("hidden":[1, -2.5,0.0,375e-2])"));
  EXPECT_EQ(text_of(numbers), text_of(packed));
}

TEST(Route, AlignsRowsAtTheStart) {
  const auto call = call_of<RouteCall>("tenzro_moeRoute", route(states({1, 2})));
  EXPECT_EQ(std::bit_cast<std::uintptr_t>(call.hidden.data.bytes().data()) % 64, 0U);
}

TEST(Route, TakesNoRowsAtAll) {
  for (const char* none : {R"("hidden_states":"")", R"("hidden":[])"}) {
    const auto call = call_of<RouteCall>("tenzro_moeRoute", route(none));
    EXPECT_EQ(call.hidden.count, 0U);
    EXPECT_EQ(call.hidden.width, 2U);
  }
}

TEST(Route, ReadsEveryOption) {
  const auto call = call_of<RouteCall>(
      "tenzro_moeRoute", route(states({1, 2}) + R"(,"top_k":4294967295,"token_ids":[-1],)" +
                               states({3, 4}, "router_hidden_states")));
  EXPECT_EQ(call.top_k, 4294967295U);
  EXPECT_EQ(call.token_ids, std::vector<std::int64_t>{-1});
  ASSERT_TRUE(call.router_hidden.has_value());
  EXPECT_EQ(floats_of(call.router_hidden->data), (Floats{3, 4}));
}

TEST(Route, RefusesWrongLengths) {
  const auto with = [](std::string_view rest, int d_model = 2) {
    return outcome_of("tenzro_moeRoute", route(rest, d_model));
  };
  EXPECT_EQ(with(R"("hidden_states":"AAA")"),
            "-32602: hidden_states: invalid base64: characters are missing at the end");
  EXPECT_EQ(with(R"("hidden_states":"A-AA")"),
            "-32602: hidden_states: invalid base64: the character at 1 cannot stand there");
  EXPECT_EQ(with(R"("hidden_states":"AAAA")"),
            "-32602: hidden_states: f32 payload length is not a multiple of 4 bytes");
  EXPECT_EQ(with(states({1, 2, 3})),
            "-32602: hidden_states: length 3 is not a multiple of d_model 2");
  EXPECT_EQ(with(R"("hidden":[1,2,3])"), "-32602: hidden: length 3 is not a multiple of d_model 2");
  EXPECT_EQ(with(states({1}), 0), "-32602: d_model must be >= 1");
  EXPECT_EQ(outcome_of("tenzro_moeRoute",
                       R"({"model_id":"m","layer":1,"d_model":4294967295,"hidden":[1]})"),
            "-32602: hidden: length 1 is not a multiple of d_model 4294967295");
  EXPECT_EQ(with(states({1, 2}) + ',' + states({1, 2, 3}, "router_hidden_states")),
            "-32602: router_hidden_states: length 3 is not a multiple of d_model 2");
  EXPECT_EQ(with(states({1, 2}) + ',' + states({1, 2, 3, 4}, "router_hidden_states")),
            "-32602: router_hidden_states: 2 rows, but 1 rows of hidden states");
}

TEST(Route, RefusesWrongTypes) {
  const auto with = [](std::string_view rest) {
    return outcome_of("tenzro_moeRoute", route(rest));
  };
  EXPECT_EQ(with(R"("hidden_states":[1,2])"), "-32602: hidden_states: must be a string");
  EXPECT_EQ(with(R"("hidden":"AAAA")"), "-32602: hidden: must be an array of numbers");
  EXPECT_EQ(with(R"("hidden":[1,"2"])"), "-32602: hidden: must be an array of numbers");
  EXPECT_EQ(with(R"("hidden":[1,null])"), "-32602: hidden: must be an array of numbers");
  EXPECT_EQ(with(R"("hidden":[[1,2]])"), "-32602: hidden: must be an array of numbers");
  EXPECT_EQ(with(R"("hidden":{})"), "-32602: hidden: must be an array of numbers");
  EXPECT_EQ(with(R"("hidden":[1,2],)" + states({1, 2})),
            "-32602: hidden: cannot be given together with hidden_states");
  EXPECT_EQ(with(R"("hidden":null,)" + states({1, 2})), "ok");
  EXPECT_EQ(with(R"("hidden":[NaN,1])").substr(0, 6), "-32700");
  EXPECT_EQ(with(states({1, 2}) + R"(,"top_k":0)"), "-32602: top_k must be >= 1");
  EXPECT_EQ(with(states({1, 2}) + R"(,"top_k":"8")"), "-32602: top_k: must be an integer");
  EXPECT_EQ(with(states({1, 2}) + R"(,"top_k":null)"), "ok");
  EXPECT_EQ(with(states({1, 2}) + R"(,"token_ids":7)"),
            "-32602: token_ids: must be an array of integers");
  EXPECT_EQ(with(states({1, 2}) + R"(,"token_ids":[1.5])"),
            "-32602: token_ids[0]: must be an integer");
  EXPECT_EQ(with(states({1, 2}) + R"(,"token_ids":[9223372036854775808])"),
            "-32602: token_ids[0]: 9223372036854775808 is out of range "
            "-9223372036854775808..9223372036854775807");
}

TEST(Route, RefusesValuesThatAreNotFiniteNamingTheRow) {
  const auto with = [](std::string_view rest) {
    return outcome_of("tenzro_moeRoute", route(rest));
  };
  EXPECT_EQ(with(states({1, 2, 3, kNan})),
            "-32602: hidden_states: row 1 holds a value that is not finite");
  EXPECT_EQ(with(states({kInfinity, 2})),
            "-32602: hidden_states: row 0 holds a value that is not finite");
  EXPECT_EQ(with(states({1, 2, 3, 4, -kInfinity, 6})),
            "-32602: hidden_states: row 2 holds a value that is not finite");
  EXPECT_EQ(with(R"("hidden":[1,2,3,1e39])"),
            "-32602: hidden: row 1 holds a value that is not finite");
  EXPECT_EQ(with(R"("hidden":[-1e999,2])"),
            "-32602: hidden: row 0 holds a value that is not finite");
  EXPECT_EQ(with(R"("hidden":[1e-999,3.4028235e38])"), "ok");
  EXPECT_EQ(with(states({1, 2}) + ',' + states({kNan, 1}, "router_hidden_states")),
            "-32602: router_hidden_states: row 0 holds a value that is not finite");
}

TEST(Forward, ReadsEveryOption) {
  const auto defaults = call_of<ForwardCall>("tenzro_moeForward", route(states({1, 2})));
  EXPECT_EQ(defaults.allow_cold, std::nullopt);
  EXPECT_FALSE(defaults.allow_partial);
  EXPECT_EQ(defaults.carrier, std::nullopt);  // the configuration decides
  EXPECT_EQ(defaults.profile, std::nullopt);
  const auto call = call_of<ForwardCall>(
      "tenzro_moeForward",
      route(
          states({1, 2}) +
          R"(,"top_k":2,"allow_cold":true,"allow_partial":true,"carrier":"q8","profile":"fast")"));
  EXPECT_EQ(call.route.top_k, 2U);
  EXPECT_EQ(call.allow_cold, true);
  EXPECT_TRUE(call.allow_partial);
  EXPECT_EQ(call.carrier, CarrierChoice::q8);
  EXPECT_EQ(call.profile, compute::Profile::fast);
  EXPECT_EQ(call_of<ForwardCall>("tenzro_moeForward",
                                 route(states({1, 2}) + R"(,"carrier":"dense","profile":"exact")"))
                .carrier,
            CarrierChoice::dense);
}

TEST(Forward, RefusesUnknownChoices) {
  const auto with = [](std::string_view rest) {
    return outcome_of("tenzro_moeForward", route(states({1, 2}) + std::string(rest)));
  };
  EXPECT_EQ(with(R"(,"carrier":"Q8")"),
            "-32602: carrier: unknown carrier 'Q8': expected auto, dense, or q8");
  EXPECT_EQ(with(R"(,"carrier":8)"), "-32602: carrier: must be a string");
  EXPECT_EQ(with(R"(,"profile":"precise")"),
            "-32602: profile: unknown profile 'precise': expected exact or fast");
  EXPECT_EQ(with(R"(,"allow_partial":"no")"), "-32602: allow_partial: must be true or false");
  EXPECT_EQ(with(R"(,"carrier":")" + std::string(500, 'x') + "\""),
            "-32602: carrier: unknown carrier '" + std::string(200, 'x') +
                "…': expected auto, dense, or q8");
}

TEST(Execute, ReadsDenseRowsAndKeepsTheirBytesAsTheCarrier) {
  const auto call =
      call_of<ExecuteCall>("tenzro_moeExecute", execute("[7,7]", ',' + states({1, 2, 3, 4})));
  EXPECT_EQ(call.token_indices, (std::vector<std::uint32_t>{7, 7}));
  EXPECT_FALSE(call.is_q8);
  EXPECT_EQ(floats_of(call.hidden.data), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(call.carrier.bytes().data(), call.hidden.data.bytes().data());
  const auto numbers =
      call_of<ExecuteCall>("tenzro_moeExecute", execute("[7,7]", R"(,"hidden":[1,2,3,4])"));
  EXPECT_EQ(text_of(numbers), text_of(call));
}

TEST(Execute, LeavesTheEmptyBatchToTheNode) {
  for (const char* rest : {"", R"(,"hidden_states":"")", R"(,"hidden_q8":"")", R"(,"hidden":[])"}) {
    const auto call = call_of<ExecuteCall>("tenzro_moeExecute", execute("[]", rest, 32));
    EXPECT_EQ(call.hidden.count, 0U);
  }
}

TEST(Execute, DecodesQ8RowsAndKeepsTheBlocksAsTheCarrier) {
  // Scales 1 and 0.5.
  const auto call = call_of<ExecuteCall>(
      "tenzro_moeExecute",
      execute("[0,9]", q8({block(0x3C00, -127, 2), block(0x3800, 4, -1)}), 32));
  EXPECT_TRUE(call.is_q8);
  EXPECT_EQ(call.carrier.size(), 68U);
  const Floats rows = floats_of(call.hidden.data);
  ASSERT_EQ(rows.size(), 64U);
  EXPECT_EQ(rows[0], -127.0F);
  EXPECT_EQ(rows[31], 2.0F);
  EXPECT_EQ(rows[32], 2.0F);
  EXPECT_EQ(rows[63], -0.5F);
}

TEST(Execute, PrefersQ8OverDenseRows) {
  const auto call = call_of<ExecuteCall>(
      "tenzro_moeExecute", execute("[0]", q8({block(0x3C00)}) + R"(,"hidden_states":"AAAA")", 32));
  EXPECT_TRUE(call.is_q8);
}

TEST(Execute, RefusesQ8RowsOfTheWrongLength) {
  const auto with = [](std::string_view tokens, std::string_view rest, int d_model = 32) {
    return outcome_of("tenzro_moeExecute", execute(tokens, rest, d_model));
  };
  const std::string start = "-32602: invalid execute params: hidden_q8: ";
  EXPECT_EQ(with("[0,1]", q8({block(0x3C00)})),
            start + "length 34 does not match 2 tokens of 34 bytes");
  EXPECT_EQ(with("[0]", q8({block(0x3C00), block(0x3C00)})),
            start + "length 68 does not match 1 tokens of 34 bytes");
  EXPECT_EQ(with("[0]", R"(,"hidden_q8":"")"),
            start + "length 0 does not match 1 tokens of 34 bytes");
  EXPECT_EQ(with("[0]", q8({block(0x3C00)}), 33), start + "d_model 33 is not a multiple of 32");
  EXPECT_EQ(outcome_of("tenzro_moeExecute",
                       R"({"model_id":"m","layer":1,"expert":2,"d_model":4294967264,
                           "token_indices":[0,1,2],"hidden_q8":"AAAA"})"),
            start + "length 3 does not match 3 tokens of 4563402718 bytes");
  EXPECT_EQ(with("[0]", R"(,"hidden_q8":"*AAA")"),
            start + "invalid base64: the character at 0 cannot stand there");
  EXPECT_EQ(with("[0]", R"(,"hidden_q8":[1])"), start + "must be a string");
}

TEST(Execute, RefusesQ8RowsThatNoQuantiserMakes) {
  const auto with = [](const std::vector<std::vector<std::uint8_t>>& blocks) {
    return outcome_of("tenzro_moeExecute", execute("[0,1]", q8(blocks), 32));
  };
  const std::string start = "-32602: invalid execute params: hidden_q8: ";
  EXPECT_EQ(with({block(0x3C00), block(0x7C00)}), start + "row 1 holds a scale that is not finite");
  EXPECT_EQ(with({block(0xFE00), block(0x3C00)}), start + "row 0 holds a scale that is not finite");
  EXPECT_EQ(with({block(0x3C00, -128), block(0x3C00)}), start + "row 0 holds the value -128");
  EXPECT_EQ(with({block(0x3C00), block(0x3C00, 0, -128)}), start + "row 1 holds the value -128");
  EXPECT_EQ(with({block(0x7BFF, -127, 127), block(0xFBFF, 127)}), "ok");
}

TEST(Execute, RefusesDenseRowsThatDoNotMatchTheTokens) {
  const auto with = [](std::string_view tokens, std::string_view rest) {
    return outcome_of("tenzro_moeExecute", execute(tokens, rest));
  };
  const std::string start = "-32602: invalid execute params: ";
  EXPECT_EQ(with("[0]", ',' + states({1, 2, 3, 4})),
            start + "hidden_states: hidden-state length 4 does not match 1 tokens x d_model 2");
  EXPECT_EQ(with("[0]", ""),
            start + "hidden_states: hidden-state length 0 does not match 1 tokens x d_model 2");
  EXPECT_EQ(with("[]", R"(,"hidden":[1,2])"),
            start + "hidden: hidden-state length 2 does not match 0 tokens x d_model 2");
  EXPECT_EQ(with("[0]", ',' + states({1, kNan})),
            start + "hidden_states: row 0 holds a value that is not finite");
  EXPECT_EQ(with("[0]", R"(,"hidden_states":"AAAA")"),
            start + "hidden_states: f32 payload length is not a multiple of 4 bytes");
  EXPECT_EQ(with("[0]", R"(,"hidden":[1,2],)" + states({1, 2})),
            start + "hidden: cannot be given together with hidden_states");
  EXPECT_EQ(with("7", ""), start + "token_indices: must be an array of integers");
  EXPECT_EQ(with("[\"0\"]", ""), start + "token_indices: must be an array of integers");
  EXPECT_EQ(with("[-1]", ""), start + "token_indices[0]: -1 is out of range 0..4294967295");
  EXPECT_EQ(with("[0.0]", ""), start + "token_indices[0]: must be an integer");
}

/// The same string with some of its characters escaped.
std::string escaped(const std::string& text, Prng& prng) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (prng.below(40) == 0) {
      out.append("\\u00").append(1, kHex[byte >> 4U]).append(1, kHex[byte & 15U]);
    } else if (c == '/' && prng.below(2) == 0) {
      out += "\\/";
    } else {
      out += c;
    }
  }
  return out;
}

std::string as_numbers(const Floats& values) {
  std::string out;
  for (const float value : values) out += (out.empty() ? "" : ", ") + nlohmann::json(value).dump();
  return out;
}

ForwardCall forward(const std::string& rest) {
  return call_of<ForwardCall>("tenzro_moeForward", route(rest));
}

// A string may be written with escapes, and then it is read another way than from the body itself.
TEST(Tensors, AreTheSameHoweverTheTextIsWritten) {
  Prng prng(4);
  for (int i = 0; i < 300; ++i) {
    Floats values(2 * prng.below(400));
    for (float& value : values) value = static_cast<float>(prng.below(1'000'000)) * 0.37F - 1000;
    const std::string text = base64_of(values);
    const ForwardCall plain = forward(R"("hidden_states":")" + text + '"');
    const ForwardCall other = forward(R"("hidden_states":")" + escaped(text, prng) + '"');
    const ForwardCall list = forward(R"("hidden":[)" + as_numbers(values) + ']');
    ASSERT_EQ(floats_of(plain.route.hidden.data), values);
    ASSERT_EQ(text_of(other), text_of(plain));
    ASSERT_EQ(text_of(list), text_of(plain));
  }
}

}  // namespace
}  // namespace tenzro::rpc
