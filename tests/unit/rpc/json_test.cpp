#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "json_parser.hpp"
#include "json_text.hpp"
#include "json_text_maker.hpp"
#include "json_writer.hpp"
#include "rows_reader.hpp"

namespace tenzro::rpc {
namespace {

/// What another parser would have made of a node.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the documents below
nlohmann::json as_general(const JsonNode& node) {
  nlohmann::json value;
  switch (node.kind) {
    case JsonKind::object:
      value = nlohmann::json::object();
      for (const JsonNode& child : JsonChildren(node))
        value[std::string(child.key)] = as_general(child);
      return value;
    case JsonKind::array:
      value = nlohmann::json::array();
      for (const JsonNode& child : JsonChildren(node)) value.push_back(as_general(child));
      return value;
    case JsonKind::numbers: {
      value = nlohmann::json::array();
      NumberTokens tokens(node);
      while (const auto token = tokens.next()) value.push_back(nlohmann::json::parse(*token));
      EXPECT_EQ(value.size(), node.count);
      return value;
    }
    case JsonKind::string:
      return std::string(node.text);
    default:
      return nlohmann::json::parse(node.source);
  }
}

/// A text as the other parser sees it: discarded where it is broken; nothing where it is only that
/// a number is too big for it.
std::optional<nlohmann::json> parse_generally(const std::string& text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::out_of_range&) {
    return std::nullopt;
  } catch (const nlohmann::json::parse_error&) {
    return nlohmann::json(nlohmann::json::value_t::discarded);
  }
}

std::string fault_of(std::string_view text, const JsonLimits& limits = {}) {
  const Result<JsonDocument> document = parse_json(text, limits);
  return document ? "ok" : document.error().message();
}

TEST(JsonParser, AgreesWithAGeneralParserOnRandomTexts) {
  Prng prng(1);
  for (int i = 0; i < 5'000; ++i) {
    const std::string text = random_json(prng, 5);
    const Result<JsonDocument> document = parse_json(text, {});
    ASSERT_TRUE(document) << text << '\n' << document.error().message();
    ASSERT_EQ(as_general(document->root()), nlohmann::json::parse(text)) << text;
  }
}

TEST(JsonParser, AgreesWithAGeneralParserOnDamagedTexts) {
  Prng prng(2);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = damaged(random_json(prng, 4), prng);
    const std::optional<nlohmann::json> expected = parse_generally(text);
    if (!expected) continue;
    const Result<JsonDocument> document = parse_json(text, {});
    ASSERT_EQ(document.has_value(), !expected->is_discarded()) << text;
    if (!document) {
      ++refused;
    } else if (!document->root().has_duplicate_key) {
      ASSERT_EQ(as_general(document->root()), *expected) << text;
    }
  }
  EXPECT_GT(refused, 5'000);
}

TEST(JsonParser, RefusesEveryTruncation) {
  const std::string text = R"( {"a":[1,2,{"b":"\u00e9\n"}],"c":[1.5e3,-0],"d":[true,null]} )";
  ASSERT_EQ(fault_of(text), "ok");
  const std::size_t end = text.rfind('}');
  for (std::size_t size = 0; size <= end; ++size) {
    EXPECT_FALSE(parse_json(std::string_view(text).substr(0, size), {})) << size;
  }
}

TEST(JsonParser, NamesThePositionAndNothingOfTheText) {
  EXPECT_EQ(fault_of(""), "parse error at byte 0: the text ends early");
  EXPECT_EQ(fault_of("[1,2"), "parse error at byte 4: the text ends early");
  EXPECT_EQ(fault_of("{\"a\":secret}"), "parse error at byte 5: expected a value");
  EXPECT_EQ(fault_of("{} {}"), "parse error at byte 3: text after the value");
  EXPECT_EQ(fault_of("{\"a\" 1}"), "parse error at byte 5: expected ':'");
  EXPECT_EQ(fault_of("{\"a\":1 \"b\":2}"), "parse error at byte 7: expected ',' or '}'");
  EXPECT_EQ(fault_of("[1 2]"), "parse error at byte 3: expected ',' or ']'");
  EXPECT_EQ(fault_of("{a:1}"), "parse error at byte 1: expected a member's name");
  EXPECT_EQ(fault_of("\"\xFF\""), "parse error at byte 0: invalid UTF-8");
  EXPECT_EQ(fault_of("\xEF\xBB\xBF{}"), "parse error at byte 0: expected a value");
  EXPECT_EQ(fault_of("\"a\nb\""), "parse error at byte 0: a control character in a string");
}

TEST(JsonParser, RefusesWhatJsonDoesNotHave) {
  for (const char* text :
       {"01",        "+1",         "1.",          ".5",          "1e",         "1e+",
        "-",         "0x10",       "NaN",         "Infinity",    "-Infinity",  "'a'",
        "[1,]",      "{\"a\":1,}", "[,1]",        "{,}",         "tru",        "nulll",
        "\"\\x41\"", "\"\\u12\"",  "\"\\u12g4\"", "\"\\\"",      "// no\n1",   "[1}",
        "{\"a\":1]", "]",          "}",           "\"\\u+123\"", "\"\\u-123\""}) {
    EXPECT_FALSE(parse_json(text, {})) << text;
  }
}

TEST(JsonParser, RefusesHalvesOfSurrogatePairs) {
  for (const char* text : {R"("\ud800")", R"("\udc00")", R"("\ud800\ud800")", R"("\ud800A")",
                           R"("\ud800\n")", R"("\udc00\ud800")", R"("\ud83d\u0041")"}) {
    EXPECT_EQ(fault_of(text), "parse error at byte 0: a string with an invalid escape") << text;
  }
  const Result<JsonDocument> pair = parse_json(R"("\ud83d\ude00")", {});
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->root().text, "\xF0\x9F\x98\x80");
}

TEST(JsonParser, RefusesSurrogatesAndOverlongFormsInUtf8) {
  for (const char* bytes : {"\xED\xA0\x80", "\xC0\x80", "\xF5\x80\x80\x80", "\x80", "\xC3",
                            "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(parse_json('"' + std::string(bytes) + '"', {}));
    // Behind a block that is skipped at once, and as a key.
    EXPECT_FALSE(parse_json('"' + std::string(130, 'x') + bytes + '"', {}));
    EXPECT_FALSE(parse_json("{\"" + std::string(bytes) + "\":1}", {}));
  }
}

TEST(JsonParser, FindsTheEndOfAStringAtEveryPositionOfABlock) {
  for (std::size_t size = 0; size < 200; ++size) {
    const std::string plain(size, 'x');
    EXPECT_EQ(scan_string('"' + plain + "\" tail\"").size, size + 2);
    EXPECT_EQ(scan_string('"' + plain + "\\\"\" tail").size, size + 4);
    EXPECT_EQ(scan_string('"' + plain).size, 0U);
    EXPECT_EQ(scan_string('"' + plain + '\\').size, 0U);
    EXPECT_EQ(scan_string('"' + plain + "\x1F\"").size, 0U);
    EXPECT_EQ(scan_string('"' + plain + "\x80\"").size, 0U);
    EXPECT_EQ(scan_string('"' + plain + "\xC3\xA9\"").size, size + 4);
    EXPECT_EQ(scan_string('"' + plain + "\x7F\"").size, size + 3);
  }
}

TEST(JsonParser, RefusesWhatIsNestedTooDeepWithoutRecursion) {
  const auto nested = [](std::size_t depth, std::string_view open, std::string_view close) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += open;
    text += "1";
    for (std::size_t i = 0; i < depth; ++i) text += close;
    return text;
  };
  EXPECT_EQ(fault_of(nested(64, "[", "]")), "ok");
  EXPECT_EQ(fault_of(nested(65, "[", "]")), "parse error at byte 64: nested deeper than 64 levels");
  EXPECT_EQ(fault_of(nested(64, "{\"a\":", "}")), "ok");
  EXPECT_EQ(fault_of(nested(65, "{\"a\":", "}")),
            "parse error at byte 320: nested deeper than 64 levels");
  EXPECT_FALSE(parse_json(std::string(1'000'000, '['), {}));
}

TEST(JsonParser, MarksDuplicateKeysAtEveryDepth) {
  const auto is_marked = [](std::string_view text) {
    const Result<JsonDocument> document = parse_json(text, {});
    return document && document->root().has_duplicate_key;
  };
  EXPECT_TRUE(is_marked(R"({"a":1,"a":1})"));
  EXPECT_TRUE(is_marked(R"({"a":1,"\u0061":1})"));
  EXPECT_TRUE(is_marked(R"({"x":[0,{"y":{"a":1,"b":2,"a":3}}]})"));
  EXPECT_TRUE(is_marked(R"({"":1,"":2})"));
  EXPECT_FALSE(is_marked(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]})"));
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += '"' + std::to_string(i) + "\":0,";
  EXPECT_FALSE(is_marked(many + "\"end\":0}"));
  EXPECT_TRUE(is_marked(many + "\"500\":0}"));
}

TEST(JsonParser, BoundsTheValuesOfABody) {
  const JsonLimits limits{.depth_max = 64, .values_max = 10};
  const std::string ten = R"([{},{},{},{},{},{},{},{},{}])";
  EXPECT_EQ(fault_of(ten, limits), "ok");
  EXPECT_EQ(fault_of(R"([{},{},{},{},{},{},{},{},{},{}])", limits),
            "more than 10 values in one body");
  EXPECT_EQ(fault_of("[1,2,3,4,5,6,7,8,9]", limits), "ok");
  EXPECT_EQ(fault_of("[1,2,3,4,5,6,7,8,9,10]", limits), "more than 10 values in one body");
  EXPECT_EQ(fault_of(R"({"hidden":[1,2,3,4,5,6,7,8,9,10,11,12]})", limits), "ok");
  EXPECT_EQ(fault_of(R"({"hidden":[1,2,3,4,5,6,7,8,9,10,11,"x"]})", limits),
            "more than 10 values in one body");
}

TEST(JsonParser, KeepsTheSourceOfEveryValue) {
  const Result<JsonDocument> document =
      parse_json(R"({"a": [1, {"b":"\u0041"}] , "c":[2 , 3]})", {});
  ASSERT_TRUE(document);
  const JsonNode* a = find_member(document->root(), "a");
  const JsonNode* c = find_member(document->root(), "c");
  ASSERT_TRUE(a != nullptr && c != nullptr);
  EXPECT_EQ(a->source, R"([1, {"b":"\u0041"}])");
  EXPECT_EQ(c->source, "[2 , 3]");
  EXPECT_EQ(c->kind, JsonKind::numbers);
  EXPECT_EQ(find_member(document->root(), "b"), nullptr);
}

TEST(JsonNumbers, AreReadAsTheNearestFloat) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_f32("1"), 1.0F);
  EXPECT_EQ(to_f32("-2.5e-1"), -0.25F);
  EXPECT_EQ(to_f32("1e+2"), 100.0F);
  EXPECT_EQ(to_f32("3.4028235e38"), std::numeric_limits<float>::max());
  EXPECT_EQ(to_f32("3.4028236e38"), kInfinity);
  EXPECT_EQ(to_f32("1e39"), kInfinity);
  EXPECT_EQ(to_f32("-1e999"), -kInfinity);
  EXPECT_EQ(to_f32("1e99999999999999999999999"), kInfinity);
  EXPECT_EQ(to_f32("1e-46"), 0.0F);
  EXPECT_EQ(to_f32("1e-999"), 0.0F);
  EXPECT_EQ(to_f32("1e-99999999999999999999999"), 0.0F);
  EXPECT_EQ(to_f32("0e99999999999999999999999"), 0.0F);
  EXPECT_EQ(to_f32("1e-45"), std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::signbit(to_f32("-0")));
  EXPECT_TRUE(std::signbit(to_f32("-1e-999")));
  EXPECT_EQ(to_f32('1' + std::string(400, '0')), kInfinity);
  EXPECT_EQ(to_f32("0." + std::string(400, '0') + '1'), 0.0F);
  EXPECT_EQ(to_f32('1' + std::string(400, '0') + "e-400"), 1.0F);
  // Halfway between two floats in f64, above it in truth: one rounding, not two.
  EXPECT_EQ(to_f32("1.00000005960464477540"), std::nextafter(1.0F, 2.0F));
}

TEST(JsonWriter, EscapesWhatMustBeEscapedAndMendsBrokenUtf8) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    append_quoted(out, text);
    return out;
  };
  EXPECT_EQ(quoted("a\"b\\c\n\r\t"), R"("a\"b\\c\n\r\t")");
  EXPECT_EQ(quoted(std::string_view("\0\x1F", 2)), R"("\u0000\u001f")");
  EXPECT_EQ(quoted("\xC3\xA9/\x7F"), "\"\xC3\xA9/\x7F\"");
  EXPECT_EQ(quoted("a\xFF\xC3"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(quoted("\xFF\xC3\xA9"), "\"\xEF\xBF\xBD\xC3\xA9\"");
}

TEST(JsonWriter, WritesFloatsThatReadBackAsTheSame) {
  Prng prng(3);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(prng.next());
    const auto number = std::bit_cast<float>(bits);
    if (!std::isfinite(number)) continue;
    JsonWriter out;
    out.value(number);
    const BufferRef text = out.finish(scalar_base64_kernels());
    ASSERT_TRUE(nlohmann::json::accept(text.text())) << text.text();
    ASSERT_EQ(std::bit_cast<std::uint32_t>(to_f32(text.text())), bits) << text.text();
  }
  JsonWriter out;
  out.value(std::numeric_limits<float>::infinity());
  EXPECT_EQ(out.finish(scalar_base64_kernels()).text(), "null");
}

}  // namespace
}  // namespace tenzro::rpc
