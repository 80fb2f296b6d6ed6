// Results as a person reads them, and formats.
#include <gtest/gtest.h>

#include "format.hpp"
#include "support.hpp"
#include "table.hpp"

namespace tenzro::cli {
namespace {

const std::string kHash(64, 'a');

TEST(Table, AlignsNumbersRightAndTextLeft) {
  Table table({"NAME", "N"});
  table.add({"a", "1"});
  table.add({"é-long", "100"});
  table.add({"b", "-"});
  EXPECT_EQ(table.render(),
            "NAME      N\n"
            "a         1\n"
            "é-long  100\n"
            "b         -\n");
}

TEST(Table, FactsStandInTwoColumns) {
  Facts facts;
  facts.add("a", "1");
  facts.add("long", "2");
  EXPECT_EQ(facts.render(), "a     1\nlong  2\n");
}

TEST(Format, SizesTimesAndIdsAreShort) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(8ULL << 30U), "8.0 GiB");
  EXPECT_EQ(bytes_text(UINT64_MAX), "16384.0 PiB");
  EXPECT_EQ(microseconds_text(850), "850 us");
  EXPECT_EQ(microseconds_text(12'340), "12.34 ms");
  EXPECT_EQ(microseconds_text(4'560'000), "4.56 s");
  EXPECT_EQ(nanoseconds_text(999), "999 ns");
  EXPECT_EQ(nanoseconds_text(41'500), "41 us");
  EXPECT_EQ(percent_text(973, 1000), "97.3 %");
  EXPECT_EQ(percent_text(0, 0), "-");
  EXPECT_EQ(hit_rate_text(9, 1), "90.0 % of 10 found in memory");
  EXPECT_EQ(uptime_text(59), "59s");
  EXPECT_EQ(uptime_text(200), "3m 20s");
  EXPECT_EQ(uptime_text(3600 * 26), "1d 2h");
  EXPECT_EQ(short_id(kHash), "aaaaaaaaaaaa..");
  EXPECT_EQ(short_id("-"), "-");
}

TEST(Format, WhatANodeSaysCannotDriveTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m é"),
            "\\x9b1m é");
  const std::string shown =
      show({"moe", "catalog-shape", "--model-id", "m"}, R"({"model_id":"\u001b]0;x\u0007"})");
  EXPECT_EQ(shown.find('\x1b'), std::string::npos);
}

TEST(Show, ShardMapListsEveryHolder) {
  const std::string out = show(
      {"moe", "shard-map", "--model-id", "m"},
      R"({"model_id":"m","covered_experts":1,"distinct_providers":2,"policy":{"min_replication":2,
          "max_replication":8,"hot_threshold_tps":1000},"under_replicated_experts":[{"layer":7,"expert":142}],
          "hot_experts":[],"holders":[{"layer":0,"expert":1,"replication":2,"holders":[
          {"provider":")" +
          kHash + R"(","residency":"Warm","committed_tps":800,"iroh_endpoint_id":null,
           "http_endpoint":"http://a:1","blob_uri":"tenzro://blob/x"},
          {"provider":"bb","residency":"Cold","committed_tps":0,"iroh_endpoint_id":"cc",
           "http_endpoint":null,"blob_uri":null}]}]})");
  EXPECT_EQ(out,
            "model               m\n"
            "covered experts     1\n"
            "distinct providers  2\n"
            "policy              at least 2 holders, at most 8, hot from 1000 tokens/s\n"
            "under-replicated    l7/e142\n"
            "hot                 none\n"
            "\n"
            "LAYER  EXPERT  COPIES  PROVIDER        RESIDENCY  TPS  ENDPOINT  HTTP        BLOB\n"
            "    0       1       2  aaaaaaaaaaaa..  Warm       800  -         http://a:1  yes\n"
            "    0       1       2  bb              Cold         0  cc        -           no\n");
}

TEST(Show, StatusOfExpertsHasItsTables) {
  const std::string out = show(
      {"moe", "status"},
      R"({"experts":[{"model_id":"m","layer":0,"expert":7,"d_model":64,"d_ff":32,"approx_bytes":2048,
          "tier":"disk","weights":{"up":{"type":"q8_0","bits":8.5},"down":{"type":"q6_k","bits":6.6}}}],
          "gates":[{"model_id":"m","layer":0,"num_experts":8,"d_model":64,"approx_bytes":512}],
          "memory_bytes":0,"memory_budget_bytes":1024,"memory_experts":0,"disk_experts":1,
          "compute_backend":"cpu-avx2","evicted_to_disk":1,"evicted_dropped":0,"measured_tps":3})");
  EXPECT_NE(out.find("memory     0 B of 1.0 KiB in 0 experts\n"), std::string::npos) << out;
  EXPECT_NE(out.find("m          0       7       64    32  disk     -  q8_0  q6_k  2.0 KiB"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("m          0        8       64  512 B\n"), std::string::npos) << out;
}

TEST(Show, ForwardSaysHowItWent) {
  const std::string out = show(
      {"moe", "forward", "--model-id", "m", "--layer", "0", "--d-model", "2", "--hidden", "f"},
      R"({"d_model":2,"top_k":2,"tokens":1,"batches":3,"replans":1,"missing":[{"layer":0,"expert":5,"tokens":[0]}],
          "transports":{"local":1,"iroh":2,"http":0},"routed":[{"token_index":0,"slots":[
          {"layer":0,"expert":5,"weight":0.75},{"layer":0,"expert":1,"weight":0.25}]}],
          "outputs":"AAAAAAAAAAA=","carrier":"q8","profile":"exact"})");
  EXPECT_EQ(out,
            "outputs  1 rows of 2 (--out-file keeps them)\n"
            "top-k    2\n"
            "batches  3 (1 local, 2 iroh, 0 http)\n"
            "replans  1\n"
            "carrier  q8\n"
            "profile  exact\n"
            "missing  l0/e5 for 1 tokens\n"
            "\n"
            "TOKEN  EXPERTS (WEIGHT)\n"
            "    0  5 (0.75)  1 (0.25)\n");
}

TEST(Show, ProvidersReadNestedAndFlatCapacity) {
  const std::string out = show({"providers"},
                               R"([{"provider_address":"aa","status":"active","reputation":7,
          "quarantined_until_ms":0,"capacity":{"moe_holdings":[{},{}],"moe_roles":["Router","ExpertHolder"]}},
          {"provider":"bb","moe_holdings":[],"moe_roles":[]}])");
  EXPECT_NE(out.find("Router,ExpertHolder        2"), std::string::npos) << out;
  EXPECT_NE(out.find("alive"), std::string::npos) << out;
  EXPECT_NE(out.find("\nbb"), std::string::npos) << out;
  EXPECT_EQ(show({"providers"}, "[]"), "no providers known\n");
}

TEST(Show, SmallAnswersAreSentences) {
  EXPECT_EQ(show({"moe", "unload-gate", "--model-id", "m", "--layer", "0"}, R"({"removed":true})"),
            "removed\n");
  EXPECT_EQ(show({"moe", "unload-gate", "--model-id", "m", "--layer", "0"}, R"({"removed":false})"),
            "was not there\n");
  EXPECT_EQ(show({"moe", "receipts"}, R"({"receipts":[],"count":0})"), "no receipts\n");
  const std::string receipts = show({"moe", "receipts"},
                                    R"({"receipts":[{"key":"k","layer":1,"expert":2,"tokens":3,
          "provider":"p","commitment":"c","stored_at_ms":1700000000123}]})");
  EXPECT_NE(receipts.find("2023-11-14 22:13:20"), std::string::npos) << receipts;
}

// Every command, every kind of answer that is not what it expects: something is shown, nothing
// fails.
TEST(Show, AnyAnswerCanBeShown) {
  const std::vector<std::vector<std::string>> lines = {
      {"moe", "shard-map", "--model-id", "m"},
      {"moe", "plan-dispatch", "--model-id", "m", "--routings-json", "f"},
      {"moe", "replication-policy"},
      {"moe", "catalog-shape", "--model-id", "m"},
      {"moe", "load-expert", "--model-id", "m", "--layer", "0", "--expert", "0", "--uri", "u"},
      {"moe", "load-gate", "--model-id", "m", "--layer", "0", "--uri", "u"},
      {"moe", "status"},
      {"moe", "route", "--model-id", "m", "--layer", "0", "--d-model", "1", "--hidden", "f"},
      {"moe", "execute", "--model-id", "m", "--layer", "0", "--expert", "0", "--d-model", "1",
       "--hidden", "f"},
      {"moe", "forward", "--model-id", "m", "--layer", "0", "--d-model", "1", "--hidden", "f"},
      {"moe", "prepare-experts", "--model-id", "m", "--layer", "0"},
      {"moe", "prepare-status", "--job-id", "j"},
      {"moe", "prepare-list"},
      {"moe", "receipts"},
      {"moe", "dispute", "--key", "k"},
      {"status"},
      {"providers"},
      {"drain"},
  };
  const std::vector<std::string> answers = {
      "null",
      "true",
      "-1",
      "1e300",
      "[]",
      "{}",
      R"("text")",
      "[null,1,{}]",
      R"({"holders":[{"holders":[null,1]}],"experts":[1,null,{"weights":3}],"gates":{},"policy":[],
          "batches":[[]],"routed":[{"slots":[1,{}]},null],"missing":[0],"jobs":[{}],"receipts":[{
          "stored_at_ms":18446744073709551615}],"verification":0,"capacity":"x","memory_bytes":-5})"};
  for (const auto& line : lines) {
    for (const std::string& answer : answers) EXPECT_NO_THROW((void)show(line, answer)) << answer;
  }
}

}  // namespace
}  // namespace tenzro::cli
