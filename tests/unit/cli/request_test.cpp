// Command lines and the requests they become.
#include <gtest/gtest.h>

#include "support.hpp"

namespace tenzro::cli {
namespace {

using Line = std::vector<std::string>;

struct Case {
  Line line;
  std::string method;
  std::string params;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {{"moe", "shard-map", "--model-id", "m"}, "tenzro_moeShardMap", R"({"model_id":"m"})"},
      {{"moe", "replication-policy"}, "tenzro_moeReplicationPolicy", "{}"},
      {{"moe", "catalog-shape", "--model-id", "m"},
       "tenzro_moeCatalogShape",
       R"({"model_id":"m"})"},
      {{"moe", "load-expert", "--model-id", "m", "--layer", "3", "--expert", "7", "--uri",
        "tenzro://blob/x"},
       "tenzro_moeExpertLoad",
       R"({"model_id":"m","layer":3,"expert":7,"uri":"tenzro://blob/x"})"},
      {{"moe", "load-gate", "--model-id", "m", "--layer", "3", "--uri", "u"},
       "tenzro_moeGateLoad",
       R"({"model_id":"m","layer":3,"uri":"u"})"},
      {{"moe", "unload-expert", "--model-id", "m", "--layer", "0", "--expert", "0"},
       "tenzro_moeExpertUnload",
       R"({"model_id":"m","layer":0,"expert":0})"},
      {{"moe", "unload-gate", "--model-id", "m", "--layer", "4294967295"},
       "tenzro_moeGateUnload",
       R"({"model_id":"m","layer":4294967295})"},
      {{"moe", "status"}, "tenzro_moeExpertStatus", "{}"},
      {{"moe", "prepare-experts", "--model-id", "m", "--layer", "1"},
       "tenzro_moePrepareExperts",
       R"({"model_id":"m","layer":1})"},
      {{"moe", "prepare-experts", "--model-id", "m", "--layer", "1", "--experts", "0,3",
        "--no-gate", "--quant", "q4_k_m", "--strict", "--dense", "f32", "--source",
        "/models/../ckpt"},
       "tenzro_moePrepareExperts",
       R"({"model_id":"m","layer":1,"experts":[0,3],"include_gate":false,"quant":"q4_k_m","dense":"f32","strict":true,"source":"/ckpt"})"},
      {{"moe", "prepare-experts", "--model-id", "m", "--layer", "1", "--quant-json",
        R"({"up":"q4_k"})", "--source", "https://hub/x"},
       "tenzro_moePrepareExperts",
       R"({"model_id":"m","layer":1,"quant":{"up":"q4_k"},"source":"https://hub/x"})"},
      {{"moe", "prepare-experts", "--model-id", "m", "--layer", "0,3", "--load"},
       "tenzro_moePrepareExperts",
       R"({"model_id":"m","layer":[0,3],"load":true})"},
      {{"moe", "prepare-experts", "--model-id", "m", "--layer", "all"},
       "tenzro_moePrepareExperts",
       R"({"model_id":"m","layer":"all"})"},
      {{"moe", "prepare-resume", "--job-id", "j"}, "tenzro_moePrepareResume", R"({"job_id":"j"})"},
      {{"moe", "prepare-status", "--job-id", "j"}, "tenzro_moePrepareStatus", R"({"job_id":"j"})"},
      {{"moe", "prepare-cancel", "--job-id", "j"}, "tenzro_moePrepareCancel", R"({"job_id":"j"})"},
      {{"moe", "prepare-list"}, "tenzro_moePrepareList", "{}"},
      {{"moe", "receipts"}, "tenzro_moeListReceipts", "{}"},
      {{"moe", "receipts", "--model-id", "m", "--limit", "5"},
       "tenzro_moeListReceipts",
       R"({"model_id":"m","limit":5})"},
      {{"moe", "dispute", "--key", "k"}, "tenzro_moeDisputeReceipt", R"({"key":"k"})"},
      {{"status"}, "tenzro_nodeStatus", "{}"},
      {{"providers"}, "tenzro_listProviders", "{}"},
      {{"drain"}, "tenzro_nodeDrain", "{}"},
      {{"drain", "--limit-s", "5"}, "tenzro_nodeDrain", R"({"limit_s":5})"},
  };
  return kCases;
}

TEST(CommandLine, BecomesTheRequestOfItsMethod) {
  ScriptedNode node;
  for (const Case& each : cases()) {
    const Outcome<Request> request = request_of(each.line, node);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->method, each.method);
    EXPECT_EQ(dump(request->params), dump(Json::parse(each.params))) << each.method;
  }
}

TEST(CommandLine, GlobalFlagsStandBeforeOrAfterTheSubcommand) {
  for (const Line& line : {Line{"--json", "--rpc", "http://h:1/", "moe", "status"},
                           Line{"moe", "--json", "status", "--rpc", "h:1"},
                           Line{"moe", "status", "--rpc=http://h:1", "--json"}}) {
    const Parsed result = parsed(line);
    EXPECT_TRUE(result.settings.json);
    EXPECT_EQ(result.settings.rpc_url, "http://h:1");
  }
  const Parsed plain = parsed({"status"});
  EXPECT_FALSE(plain.settings.json);
  EXPECT_EQ(plain.settings.rpc_url, "http://127.0.0.1:8545");
}

std::string said_of(const Line& line, const std::string& token = "") {
  const auto result = parse_command_line(line, token);
  const auto* said = std::get_if<Said>(&result);
  if (said == nullptr) return "";
  EXPECT_EQ(said->code, ExitCode::usage);
  return said->text;
}

TEST(CommandLine, WhatStandsInAUrlBesidesItsHostIsRefusedAndNotRepeated) {
  for (const char* url :
       {"http://user:secret@h:1", "user:secret@h:1", "ftp://user:secret@h", "http://h:1@secret/",
        "http://user:sec/ret@h", "HTTP://user:secret@h", "http://user:secret@h#f"}) {
    EXPECT_EQ(said_of({"--rpc", url, "status"}),
              "--rpc: the URL names a user; a node's token is TENZRO_TOKEN\n")
        << url;
  }
  for (const char* url : {"http://h:1?token=secret", "h:1#secret", "http://h:1/x?y"}) {
    EXPECT_EQ(said_of({"--rpc", url, "status"}),
              "--rpc: the URL of a node has no query and no fragment\n")
        << url;
  }
  EXPECT_EQ(said_of({"--rpc", "http://h:99999", "status"}),
            "--rpc: URL 'http://h:99999' has no port that is one\n");
  EXPECT_EQ(said_of({"--rpc", "https://[::1]:8545/node/", "status"}), "");
}

TEST(CommandLine, ATokenIsOneWordOfAHeaderLine) {
  const std::string why =
      "TENZRO_TOKEN: holds a character that no token has (want printable ASCII without spaces)\n";
  for (const std::string token : {"a\nb", "a\r\nX: y", "a b", "\x7f", "\xc3\xa9", "a\n"})
    EXPECT_EQ(said_of({"status"}, token), why);
  EXPECT_EQ(said_of({"status"}, std::string("a\0b", 3)), why);
  EXPECT_EQ(said_of({"status"}, "eyJ.a-b_c+/=="), "");
}

TEST(CommandLine, AuthoritiesAreAFileThatCanBeReadAndForHttps) {
  const Directory directory;
  const std::string file = directory.file("ca.pem", "-----BEGIN CERTIFICATE-----\n");
  EXPECT_EQ(said_of({"--rpc", "https://h", "--ca-file", file, "status"}), "");
  EXPECT_EQ(said_of({"--rpc", "http://h:1", "--ca-file", file, "status"}),
            "--ca-file: is for https, and --rpc is http://h:1\n");
  const std::string said =
      said_of({"--rpc", "https://h", "--ca-file", directory.path("none"), "status"});
  EXPECT_EQ(said.rfind("--ca-file: " + directory.path("none"), 0), 0U) << said;
}

TEST(CommandLine, CommandsThatNoNodeServesSaySo) {
  for (const char* command : {"receipts", "dispute"}) {
    const auto result = parse({"moe", command, "--help"});
    EXPECT_NE(std::get<Said>(result).text.find("does not serve this method yet"), std::string::npos)
        << command;
  }
  const auto unserved = read_answer(
      200, R"({"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown method: m"}})");
  ASSERT_FALSE(unserved);
  EXPECT_EQ(unserved.error().code, ExitCode::refused);
  EXPECT_EQ(unserved.error().message,
            "the node does not serve this method yet: error -32601: unknown method: m");
}

TEST(CommandLine, WhatIsWrongIsAUsageError) {
  const std::vector<Line> lines = {
      {},
      {"moe"},
      {"moe", "nonsense"},
      {"status", "--nonsense"},
      {"status", "extra"},
      {"moe", "shard-map"},
      {"moe", "load-expert", "--model-id", "m", "--layer", "1", "--expert", "2"},
      {"moe", "load-gate", "--model-id", "m", "--layer", "1", "--uri", "u", "--file", "f"},
      {"moe", "unload-gate", "--model-id", "m", "--layer", "-1"},
      {"moe", "unload-gate", "--model-id", "m", "--layer", "4294967296"},
      {"moe", "unload-gate", "--model-id", "m", "--layer", "1.0"},
      {"moe", "unload-expert", "--model-id", "m", "--layer", "1"},
      {"moe", "dispute"},
      {"moe", "dispute", "--key", "k", "--bundle", "f"},
      {"moe", "forward", "--model-id", "m", "--layer", "1", "--d-model", "0", "--hidden-file", "f"},
      {"moe", "forward", "--model-id", "m", "--layer", "1", "--d-model", "4", "--hidden-file", "f",
       "--carrier", "pigeon"},
      {"moe", "prepare-experts", "--model-id", "m", "--layer", "1", "--quant", "a", "--quant-json",
       "{}"},
      {"moe", "prepare-experts", "--model-id", "m", "--layer", "1", "--experts", "0,x"},
      {"--rpc", "ftp://h", "status"},
      {"--rpc", "http://", "status"},
      {"--rpc", "", "status"},
      {"--timeout", "0", "status"},
  };
  for (const Line& line : lines) {
    const auto result = parse(line);
    const auto* said = std::get_if<Said>(&result);
    ASSERT_NE(said, nullptr) << (line.empty() ? "no arguments" : line.back());
    EXPECT_EQ(said->code, ExitCode::usage);
    EXPECT_FALSE(said->text.empty());
  }
}

TEST(CommandLine, AWordThatIsNoCommandIsNamed) {
  const std::vector<std::pair<Line, std::string>> lines = {
      {{"statsu"}, "'statsu' is no command or flag of 'tenzro'"},
      {{"--jsno"}, "'--jsno' is no command or flag of 'tenzro'"},
      {{"moe", "frobnicate"}, "'frobnicate' is no command or flag of 'tenzro moe'"},
      {{"moe", "--json", "frob\x1bnicate"}, "'frob\\x1bnicate' is no"},
      {{"moe", "frobnicate", "--layer", "1"}, "'frobnicate' is no"},
      {{"status", "extra"}, "extra"}};
  for (const auto& [line, text] : lines) {
    const auto result = parse(line);
    const auto* said = std::get_if<Said>(&result);
    ASSERT_NE(said, nullptr);
    EXPECT_EQ(said->code, ExitCode::usage);
    EXPECT_NE(said->text.find(text), std::string::npos) << said->text;
  }
}

TEST(CommandLine, AListWithAHoleIsRefusedByItsText) {
  for (const std::string list : {"2,,3", "2,", ",2", ",", "", "0,x", "01", "-1", "4294967296"}) {
    const auto result =
        parse({"moe", "prepare-experts", "--model-id", "m", "--layer", "1", "--experts", list});
    const auto* said = std::get_if<Said>(&result);
    ASSERT_NE(said, nullptr) << list;
    EXPECT_EQ(said->code, ExitCode::usage);
    EXPECT_NE(said->text.find("'" + list + "' is not a list of whole numbers"), std::string::npos)
        << said->text;
  }
}

TEST(CommandLine, HelpAndVersionAreNoErrors) {
  for (const Line& line : {Line{"--help"}, Line{"moe", "forward", "--help"}, Line{"--version"}}) {
    const auto result = parse(line);
    const auto* said = std::get_if<Said>(&result);
    ASSERT_NE(said, nullptr);
    EXPECT_EQ(said->code, ExitCode::done);
  }
  EXPECT_EQ(std::get<Said>(parse({"--version"})).text, "tenzro " TENZRO_VERSION "\n");
}

std::string floats(std::size_t count) {
  return std::string(count * 4, '\0');
}

TEST(Forward, SendsTheFileAndOnlyTheFlagsThatWereGiven) {
  const Directory directory;
  ScriptedNode node;
  const std::string file = directory.file("hidden", floats(6));
  const Line line = {"moe",       "forward", "--model-id",    "m", "--layer", "2",
                     "--d-model", "3",       "--hidden-file", file};
  const Outcome<Request> plain = request_of(line, node);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->method, "tenzro_moeForward");
  EXPECT_EQ(
      dump(plain->params),
      R"({"model_id":"m","layer":2,"d_model":3,"hidden_states":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"})");

  Line all = line;
  for (const char* flag : {"--top-k", "4", "--allow-cold", "--allow-partial", "--carrier", "q8",
                           "--profile", "fast", "--token-ids", "5,6"}) {
    all.emplace_back(flag);
  }
  const Json params = request_of(all, node)->params;
  EXPECT_EQ(params["top_k"], 4);
  EXPECT_EQ(params["allow_cold"], true);
  EXPECT_EQ(params["allow_partial"], true);
  EXPECT_EQ(params["carrier"], "q8");
  EXPECT_EQ(params["profile"], "fast");
  EXPECT_EQ(params["token_ids"], Json::parse("[5,6]"));
  Line never = line;
  never.emplace_back("--allow-cold=false");
  EXPECT_EQ(request_of(never, node)->params["allow_cold"], false);
}

TEST(Execute, NumbersTheRowsUnlessToldOtherwise) {
  const Directory directory;
  ScriptedNode node;
  Line line = {"moe",       "execute", "--model-id", "m",
               "--layer",   "0",       "--expert",   "9",
               "--d-model", "2",       "--hidden",   directory.file("hidden", floats(6))};
  Json params = request_of(line, node)->params;
  EXPECT_EQ(params["expert"], 9);
  EXPECT_EQ(params["token_indices"], Json::parse("[0,1,2]"));
  line.insert(line.end(), {"--token-indices", "4,4,7"});
  EXPECT_EQ(request_of(line, node)->params["token_indices"], Json::parse("[4,4,7]"));
}

TEST(Route, RefusesAFileThatIsNotWholeRows) {
  const Directory directory;
  ScriptedNode node;
  const Line line = {
      "moe", "route",     "--model-id", "m",        "--layer",
      "0",   "--d-model", "4",          "--hidden", directory.file("hidden", floats(6))};
  const Outcome<Request> request = request_of(line, node);
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code, ExitCode::usage);
  EXPECT_NE(request.error().message.find("24 bytes are not whole rows of 4"), std::string::npos);
}

TEST(Files, AMissingOneIsAUsageErrorThatNamesIt) {
  ScriptedNode node;
  const std::vector<Line> lines = {
      {"moe", "load-gate", "--model-id", "m", "--layer", "1", "--file", "/nowhere/f"},
      {"moe", "route", "--model-id", "m", "--layer", "0", "--d-model", "4", "--hidden",
       "/nowhere/f"},
      {"moe", "plan-dispatch", "--model-id", "m", "--routings-json", "/nowhere/f"},
      {"moe", "dispute", "--bundle", "/nowhere/f"},
  };
  for (const Line& line : lines) {
    const Outcome<Request> request = request_of(line, node);
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().code, ExitCode::usage);
    EXPECT_EQ(request.error().message.rfind("/nowhere/f: ", 0), 0U) << request.error().message;
  }
}

TEST(PlanDispatch, TakesTheRoutingsFromAFile) {
  const Directory directory;
  ScriptedNode node;
  const std::string good = directory.file("r.json", R"([{"token_index":0,"experts":[]}])");
  const Outcome<Request> request = request_of(
      {"moe", "plan-dispatch", "--model-id", "m", "--routings-json", good, "--allow-cold"}, node);
  ASSERT_TRUE(request);
  EXPECT_EQ(dump(request->params),
            R"({"model_id":"m","routings":[{"token_index":0,"experts":[]}],"allow_cold":true})");
  for (const char* bad : {"{}", "[1", ""}) {
    const std::string file = directory.file("bad.json", bad);
    EXPECT_FALSE(request_of({"moe", "plan-dispatch", "--model-id", "m", "--routing", file}, node));
  }
}

TEST(LoadExpert, SendsASmallFileInlineAndUploadsALargeOne) {
  const Directory directory;
  ScriptedNode node;
  Line line = {"moe", "load-expert", "--model-id", "m",      "--layer",
               "0",   "--expert",    "1",          "--file", directory.file("small", "abc")};
  Outcome<Request> request = request_of(line, node);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->params["blob_base64"], "YWJj");
  EXPECT_TRUE(node.uploads.empty());

  line.back() = directory.file("large", "");
  std::filesystem::resize_file(line.back(), 32U << 20U);  // sparse
  request = request_of(line, node);
  ASSERT_TRUE(request);
  EXPECT_EQ(node.uploads, std::vector<std::string>{line.back()});
  EXPECT_EQ(request->params["uri"], "tenzro://blob/uploaded");
  EXPECT_FALSE(request->params.contains("blob_base64"));

  line.back() = directory.file("empty", "");
  EXPECT_FALSE(request_of(line, node));
}

TEST(Dispute, TakesABundleAsItWasExported) {
  const Directory directory;
  ScriptedNode node;
  for (const char* text : {R"({"bundle":{"a":1}})", R"({"a":1})"}) {
    const Outcome<Request> request =
        request_of({"moe", "dispute", "--bundle", directory.file("b", text)}, node);
    ASSERT_TRUE(request);
    EXPECT_EQ(dump(request->params), R"({"bundle":{"a":1}})");
  }
}

}  // namespace
}  // namespace tenzro::cli
