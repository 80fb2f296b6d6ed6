#include "tenzro/wire/flat_json.hpp"

#include <gtest/gtest.h>

namespace tenzro::wire {
namespace {

TEST(FlatJson, NestedMembersGetDottedPaths) {
  const auto json = parse_flat_json(
      R"( {"b": true, "a": {"x": 1, "y": {"z": "t"}}, "n": null, "f": 1.0, "i": -3} )");
  ASSERT_TRUE(json.has_value()) << json.error();
  EXPECT_EQ(*json, (FlatJson{{"a", FlatObject{}},
                             {"a.x", std::int64_t{1}},
                             {"a.y", FlatObject{}},
                             {"a.y.z", std::string("t")},
                             {"b", true},
                             {"f", 1.0},
                             {"i", std::int64_t{-3}},
                             {"n", FlatOpaque{}}}));
}

TEST(FlatJson, ListsOfIntegersAreKeptAndOtherArraysAreOpaque) {
  const auto json = parse_flat_json(
      R"({"empty": [], "ints": [0, 255, -1], "mixed": [1, 2.5], "deep": [1, [2]],
          "objects": [{"k": 1, "k": 2}], "after": 5})");
  ASSERT_TRUE(json.has_value()) << json.error();
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(*json, (FlatJson{{"after", std::int64_t{5}},
                             {"deep", FlatOpaque{}},
                             {"empty", List{}},
                             {"ints", List{0, 255, -1}},
                             {"mixed", FlatOpaque{}},
                             {"objects", FlatOpaque{}}}));
}

TEST(FlatJson, IntegerBeyond63BitsIsAFloat) {
  const auto json = parse_flat_json(R"({"max": 9223372036854775807, "more": 9223372036854775808})");
  ASSERT_TRUE(json.has_value());
  EXPECT_NE(find_as<std::int64_t>(*json, "max"), nullptr);
  EXPECT_NE(find_as<double>(*json, "more"), nullptr);
}

struct Refusal {
  const char* text;
  const char* problem;
};

class FlatJsonRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(FlatJsonRefuses, WithASentence) {
  const auto json = parse_flat_json(GetParam().text);
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error(), GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    NotAnObject, FlatJsonRefuses,
    testing::Values(
        Refusal{"[]", "not a JSON object"}, Refusal{"3", "not a JSON object"},
        Refusal{"\"x\"", "not a JSON object"}, Refusal{"null", "not a JSON object"},
        Refusal{"", "not JSON at byte 1"}, Refusal{"{} {}", "not JSON at byte 4"},
        Refusal{"{\"a\":1", "not JSON at byte 7"}, Refusal{"{\"a\":1,}", "not JSON at byte 8"},
        Refusal{"{\"a\":NaN}", "not JSON at byte 6"}, Refusal{"{\"a\":1}//", "not JSON at byte 8"},
        Refusal{"\xEF\xBB\xBF{}", "not JSON"}, Refusal{"{\"a\":\"\xFF\"}", "not UTF-8"}));
INSTANTIATE_TEST_SUITE_P(Keys, FlatJsonRefuses,
                         testing::Values(Refusal{R"({"a":1,"a":2})", "duplicate key 'a'"},
                                         Refusal{R"({"a":{"b":1,"b":1}})", "duplicate key 'a.b'"},
                                         Refusal{R"({"a":{},"a":{}})", "duplicate key 'a'"},
                                         Refusal{R"({"a":1,"\u0061":2})", "duplicate key 'a'"},
                                         Refusal{R"({"a.b":1})", "unknown key 'a.b'"}));
INSTANTIATE_TEST_SUITE_P(
    Depth, FlatJsonRefuses,
    testing::Values(Refusal{R"({"a":{"b":{"c":{"d":1}}}, "e":{"f":{"g":{"h":{}}}}})",
                            "nested too deeply"},
                    Refusal{R"({"a":[[[[1]]]]})", "nested too deeply"},
                    Refusal{R"({"a":[{"b":{"c":{}}}]})", "nested too deeply"}));

TEST(FlatJson, NumberThatOverflowsADoubleIsNotJson) {
  EXPECT_FALSE(parse_flat_json(R"({"a":1e999})").has_value());
}

TEST(FlatJson, TextAfterANulIsNotIgnored) {
  using namespace std::string_view_literals;
  EXPECT_FALSE(parse_flat_json("{}\0x"sv).has_value());
}

TEST(FlatJson, LimitsAreTheCallersChoice) {
  const FlatJsonLimits tight{.bytes_max = 10, .depth_max = 1};
  EXPECT_TRUE(parse_flat_json(R"({"a": 12})", tight).has_value());
  EXPECT_FALSE(parse_flat_json(R"({"a": 1234})", tight).has_value());
  EXPECT_FALSE(parse_flat_json(R"({"a":{}})", tight).has_value());
}

}  // namespace
}  // namespace tenzro::wire
