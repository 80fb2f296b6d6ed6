// Commands of several calls, and what is printed where.
#include <gtest/gtest.h>

#include "support.hpp"

namespace tenzro::cli {
namespace {

Json job(const char* state, int completed) {
  return {{"job_id", "j"},
          {"model_id", "m"},
          {"layer", 0},
          {"state", state},
          {"error", nullptr},
          {"total_experts", 2},
          {"completed_experts", completed}};
}

TEST(Run, PrintsATableOrTheRawResult) {
  ScriptedNode node;
  node.answers = {Json::parse(R"({"removed":true})"), Json::parse(R"({"removed":true})")};
  const std::vector<std::string> line = {"moe", "unload-gate", "--model-id", "m", "--layer", "0"};
  EXPECT_EQ(run_with(node, line).out, "removed\n");
  std::vector<std::string> json = line;
  json.emplace_back("--json");
  EXPECT_EQ(run_with(node, json).out, "{\"removed\":true}\n");
}

TEST(Run, ARefusalPrintsNothingAndKeepsItsCode) {
  ScriptedNode node;
  node.answers = {failure(ExitCode::refused, "error -32004: no")};
  const Ran ran = run_with(node, {"moe", "status"});
  ASSERT_FALSE(ran.outcome);
  EXPECT_EQ(ran.outcome.error().code, ExitCode::refused);
  EXPECT_EQ(ran.out, "");
}

TEST(Run, OutFileKeepsTheRowsAsRawFloats) {
  const Directory directory;
  ScriptedNode node;
  const std::string hidden = directory.file("in", std::string(8, '\0'));
  const std::string out = directory.file("out", "old");
  const std::vector<std::string> line = {"moe",      "forward", "--model-id", "m",
                                         "--layer",  "0",       "--d-model",  "2",
                                         "--hidden", hidden,    "--out-file", out};
  node.answers = {Json::parse(R"({"outputs":"AACAPwAAIMA=","tokens":1,"d_model":2})"),
                  Json::parse(R"({"outputs":"not base64"})"), Json::parse("{}")};
  ASSERT_TRUE(run_with(node, line).outcome);
  std::stringstream bytes;
  bytes << std::ifstream(out, std::ios::binary).rdbuf();
  EXPECT_EQ(bytes.str(), std::string("\x00\x00\x80\x3f\x00\x00\x20\xc0", 8));
  EXPECT_FALSE(run_with(node, line).outcome);
  EXPECT_FALSE(run_with(node, line).outcome);
  EXPECT_EQ(std::filesystem::file_size(out), 8U);
}

TEST(Prepare, FollowsTheJobToItsEnd) {
  ScriptedNode node;
  node.answers = {job("running", 0), job("running", 0), job("running", 1), job("completed", 2),
                  job("completed", 2)};
  const Ran ran =
      run_with(node, {"moe", "prepare-experts", "--model-id", "m", "--layer", "0", "--follow"});
  ASSERT_TRUE(ran.outcome) << ran.outcome.error().message;
  ASSERT_EQ(node.requests.size(), 5U);
  EXPECT_EQ(node.requests[1].method, "tenzro_moePrepareStatus");
  EXPECT_EQ(node.requests[1].params, Json::parse(R"({"job_id":"j","summary":true})"));
  EXPECT_EQ(node.requests[4].params, Json::parse(R"({"job_id":"j"})"));  // with its blobs
  const std::string dots(12, '.');
  const std::string hashes(12, '#');
  EXPECT_NE(ran.err.find("\r[" + dots + dots + "] 0 of 2 experts\r[" + hashes + dots +
                         "] 1 of 2 experts\r[" + hashes + hashes + "] 2 of 2 experts\n"),
            std::string::npos)
      << ran.err;
  EXPECT_NE(ran.out.find("state  completed"), std::string::npos);
}

TEST(Prepare, TheLineSaysHowMuchWasReadHowLongItWillTakeAndWhatIsWaitedFor) {
  ScriptedNode node;
  Json reading = job("running", 1);
  reading["progress"] = {{"bytes_read", 1048576},
                         {"bytes_wanted", 4194304},
                         {"left_ms", 61'500},
                         {"waiting", nullptr},
                         {"waiting_ms", nullptr}};
  Json waiting = reading;
  waiting["progress"]["waiting"] = "waiting for rate limit";
  waiting["progress"]["waiting_ms"] = 4'200;
  node.answers = {job("waiting", 0), reading, waiting, job("completed", 2), job("completed", 2)};
  const Ran ran = run_with(node, {"moe", "prepare-status", "--job-id", "j", "--follow"});
  ASSERT_TRUE(ran.outcome);
  EXPECT_NE(ran.err.find("1 of 2 experts, 1.0 MiB of 4.0 MiB read, about 1m 2s left"),
            std::string::npos)
      << ran.err;
  EXPECT_NE(ran.err.find("4.0 MiB read, waiting for rate limit (5s)"), std::string::npos)
      << ran.err;
}

TEST(Prepare, AProjectionThatIsNamedTwiceIsAUsageErrorByItsName) {
  ScriptedNode node;
  const Ran ran = run_with(node, {"moe", "prepare-experts", "--model-id", "m", "--layer", "0",
                                  "--quant-json", R"({"up":"q8_0","down":"q8_0","up":"q4_k"})"});
  ASSERT_FALSE(ran.outcome);
  EXPECT_EQ(ran.outcome.error().code, ExitCode::usage);
  EXPECT_EQ(ran.outcome.error().message, "--quant-json: 'up' is named twice");
  EXPECT_TRUE(node.requests.empty());
}

TEST(Prepare, AFailedJobIsARefusalAndAnInterruptedWaitSaysHowToGoOn) {
  ScriptedNode node;
  Json failed = job("failed", 1);
  failed["error"] = "no such tensor";
  node.answers = {failed, failed};
  const std::vector<std::string> line = {"moe", "prepare-status", "--job-id", "j", "--follow"};
  Ran ran = run_with(node, line);
  ASSERT_FALSE(ran.outcome);
  EXPECT_EQ(ran.outcome.error().code, ExitCode::refused);
  EXPECT_EQ(ran.outcome.error().message, "the job failed: no such tensor");

  node.answers = {job("running", 0)};
  ran = run_with(node, line, 0);
  ASSERT_FALSE(ran.outcome);
  EXPECT_EQ(ran.outcome.error().code, ExitCode::interrupted);
  EXPECT_NE(ran.outcome.error().message.find("--job-id j"), std::string::npos);
}

TEST(Drain, FollowedToItsEndShowsWhatIsLeft) {
  const auto status = [](int only_here) {
    return Json{{"drain",
                 {{"requests", 1},
                  {"only_here", only_here},
                  {"movable", only_here},
                  {"elapsed_s", 0},
                  {"left_s", 9}}}};
  };
  ScriptedNode node;
  node.answers = {Json{{"draining", true}}, status(2), status(2), status(0)};
  const Ran ran = run_with(node, {"drain", "--follow", "--limit-s", "9"});
  ASSERT_TRUE(ran.outcome) << ran.outcome.error().message;
  EXPECT_EQ(node.requests[0].method, "tenzro_nodeDrain");
  EXPECT_EQ(node.requests[0].params["limit_s"], 9);
  EXPECT_NE(ran.err.find("\r1 requests in progress, 2 experts held by no other node (2 can be "
                         "fetched), 9 s left\r1 requests"),
            std::string::npos);
  EXPECT_EQ(ran.out, "the node has stopped\n");
}

TEST(Drain, RefusedOneIsAFailure) {
  ScriptedNode node;
  node.answers = {failure(ExitCode::refused, "no such scope")};
  const Ran ran = run_with(node, {"drain", "--follow"});
  ASSERT_FALSE(ran.outcome);
  EXPECT_EQ(ran.outcome.error().code, ExitCode::refused);
}

Json healthy() {
  return {{"version", TENZRO_VERSION},
          {"peers", 2},
          {"memory_bytes", 1},
          {"memory_budget_bytes", 100},
          {"queue_depth", 0},
          {"queue_max", 256},
          {"experts", 1},
          {"gates", 1},
          {"compute_backend", "cpu-avx2"}};
}

TEST(Doctor, AHealthyNodeHasNoFaults) {
  ScriptedNode node;
  node.pages = {Page{200, "ok"}, Page{200, "ok"}};
  node.answers = {healthy()};
  const Ran ran = run_with(node, {"doctor"});
  EXPECT_TRUE(ran.outcome);
  EXPECT_EQ(ran.out.find("FAULT"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("note"), std::string::npos) << ran.out;
}

TEST(Doctor, SaysWhatIsWrongInSentences) {
  ScriptedNode node;
  node.pages = {Page{200, "ok"}, Page{503, "starting"}};
  Json status = healthy();
  status["peers"] = 0;
  status["memory_bytes"] = 99;
  status["queue_depth"] = 200;
  status["experts"] = 0;
  status["gates"] = 0;
  status["compute_backend"] = "cpu";
  status["version"] = "9.9.9";
  node.answers = {status};
  const Ran ran = run_with(node, {"doctor"});
  ASSERT_FALSE(ran.outcome);
  EXPECT_EQ(ran.outcome.error().code, ExitCode::refused);
  for (const char* sentence : {"not ready (HTTP 503)", "knows no other node", "kept on disk",
                               "overloaded", "holds nothing yet", "portable CPU code", "9.9.9"}) {
    EXPECT_NE(ran.out.find(sentence), std::string::npos) << sentence;
  }
}

TEST(Doctor, TellsAForbiddenNodeFromAnAbsentOne) {
  ScriptedNode node;
  node.pages = {Page{200, "ok"}, Page{200, "ok"}};
  node.answers = {failure(ExitCode::refused, "error -32001: forbidden")};
  const Ran forbidden = run_with(node, {"doctor"});
  EXPECT_NE(forbidden.out.find("TENZRO_TOKEN"), std::string::npos);
  ASSERT_FALSE(forbidden.outcome);
  EXPECT_EQ(forbidden.outcome.error().code, ExitCode::refused);

  const Ran absent = run_with(node, {"doctor"});
  ASSERT_FALSE(absent.outcome);
  EXPECT_EQ(absent.outcome.error().code, ExitCode::unreachable);
  node.pages = {Page{404, "hello"}};
  const Ran stranger = run_with(node, {"doctor"});
  EXPECT_EQ(stranger.outcome.error().code, ExitCode::unreachable);
}

TEST(Bench, ReportsPercentilesAndSendsTheSameInputEachTime) {
  ScriptedNode node;
  node.answers.assign(4, Json::object());
  node.answers.push_back(failure(ExitCode::interrupted, "interrupted"));
  const Ran ran = run_with(node, {"bench", "--model-id", "m", "--layer", "0", "--d-model", "8",
                                  "--tokens", "2", "--seconds", "3600", "--json"});
  ASSERT_TRUE(ran.outcome) << ran.outcome.error().message;
  const Json result = Json::parse(ran.out);
  EXPECT_EQ(result["calls"], 3);
  EXPECT_LE(result["p50_us"], result["p99_us"]);
  EXPECT_LE(result["p99_us"], result["max_us"]);
  EXPECT_EQ(node.requests.front().params, node.requests.back().params);
  const std::string hidden = node.requests[0].params["hidden_states"].get<std::string>();
  EXPECT_EQ(hidden.size(), 88U);  // 16 floats

  node.answers = {failure(ExitCode::refused, "error -32004: no gate")};
  EXPECT_FALSE(run_with(node, {"bench", "--mode", "route", "--model-id", "m", "--layer", "0",
                               "--d-model", "8"})
                   .outcome);
  EXPECT_EQ(node.requests.back().method, "tenzro_moeRoute");
}

TEST(Answer, IsAResultARefusalOrNotANode) {
  EXPECT_EQ(read_answer(200, R"({"jsonrpc":"2.0","id":1,"result":{"a":1}})")->dump(), R"({"a":1})");
  EXPECT_TRUE(read_answer(200, R"({"result":null})")->is_null());
  const auto code_of = [](long status, const std::string& body) {
    return read_answer(status, body).error().code;
  };
  EXPECT_EQ(code_of(200, R"({"error":{"code":-32004,"message":"x"}})"), ExitCode::refused);
  EXPECT_EQ(code_of(413, R"({"error":{"code":-32600,"message":"x"}})"), ExitCode::refused);
  EXPECT_EQ(code_of(403, "forbidden"), ExitCode::refused);
  for (const std::string& body : {std::string("<html>"), std::string("{}"), std::string("[]"),
                                  std::string(), std::string(100'000, '[')}) {
    EXPECT_EQ(code_of(200, body), ExitCode::unreachable);
  }
  EXPECT_EQ(read_answer(200, R"({"error":{"code":-32004,"message":"a\u001bb"}})").error().message,
            "error -32004: a\\x1bb");
}

}  // namespace
}  // namespace tenzro::cli
