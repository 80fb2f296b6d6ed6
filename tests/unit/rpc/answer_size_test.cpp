// What an answer's JSON is said to take, beside what it takes.
#include "tenzro/rpc/answer_size.hpp"

#include <gtest/gtest.h>

#include "requests.hpp"

namespace tenzro::rpc {
namespace {

constexpr std::uint32_t kRows = 400;

std::size_t real_bytes(const Answer& answer) {
  Exchange exchange = parse(R"({"jsonrpc":"2.0","method":"tenzro_moeExpertStatus","id":1})");
  EXPECT_TRUE(exchange.take_call(0).has_value());
  exchange.set_outcome(0, answer);
  return exchange.encode(scalar_base64_kernels()).size();
}

RoutedTokens routed() {
  RoutedTokens routed{.tokens = kRows, .slots_per_token = 8};
  for (std::uint32_t i = 0; i < kRows * 8; ++i)
    routed.slots.push_back({i % 128, 1.0F / static_cast<float>(i + 3)});
  return routed;
}

std::vector<std::uint32_t> indices() {
  std::vector<std::uint32_t> list;
  for (std::uint32_t i = 0; i < kRows; ++i) list.push_back(i * 37);
  return list;
}

std::string blob_uri() {
  return "tenzro://blob/" + std::string(64, 'a') + "?n=" + std::string(64, 'b');
}

ShardMapAnswer shard_map() {
  ShardMapAnswer map{.model_id = "model"};
  for (std::uint32_t expert = 0; expert < kRows; ++expert) {
    const Holder holder{.iroh_endpoint_id = std::string(64, 'c'), .blob_uri = blob_uri()};
    map.holders.push_back({.slot = {3, expert}, .holders = {holder, holder}});
    map.hot_experts.push_back({3, expert});
  }
  return map;
}

PlanDispatchAnswer plan() {
  PlanDispatchAnswer plan{.model_id = "model"};
  for (std::uint32_t i = 0; i < kRows; ++i) {
    plan.batches.push_back({.slot = {3, i}, .token_indices = {i, i + 1}});
    plan.token_assignments.push_back({.token_index = i, .slots = {{{3, i}, {}}, {{3, 1}, {}}}});
  }
  return plan;
}

ExpertStatusAnswer status() {
  ExpertStatusAnswer status;
  for (std::uint32_t i = 0; i < kRows; ++i) {
    status.experts.push_back({.key = {"model", 3, i},
                              .d_model = 2048,
                              .d_ff = 768,
                              .approx_bytes = 5'000'000,
                              .quant = tensor::WeightType::q4_k,
                              .source_uri = blob_uri(),
                              .gate_type = tensor::WeightType::q4_k});
  }
  status.gates.resize(kRows);
  return status;
}

PrepareStatusAnswer job() {
  PrepareStatusAnswer job{.job_id = "1"};
  for (std::uint32_t i = 0; i < kRows; ++i) {
    job.experts.push_back({.layer = 3,
                           .expert = i,
                           .uri = blob_uri(),
                           .bytes = 5'000'000,
                           .quant = tensor::WeightType::q4_k,
                           .gate_type = tensor::WeightType::q4_k});
  }
  return job;
}

ListProvidersAnswer providers() {
  ListProvidersAnswer list;
  for (std::uint32_t i = 0; i < 20; ++i) {
    ProviderRow row{.name = "holder", .software = "tenzrod", .addresses = {"127.0.0.1:4000"}};
    for (std::uint32_t expert = 0; expert < kRows; ++expert)
      row.holdings.push_back({.key = {"model", 3, expert}, .blob_uri = blob_uri()});
    list.providers.push_back(row);
  }
  return list;
}

TEST(AnswerSize, OfEveryAnswerOfManyRowsIsWithinTwiceWhatItTakes) {
  const BufferRef tensor = BufferRef::copy_of(std::string(50'001, 'x'));
  const Answer answers[] = {
      RouteAnswer{.key = {"model", 3}, .top_k = 8, .routed = routed()},
      ForwardAnswer{.key = {"model", 3}, .routed = routed(), .outputs = tensor},
      ForwardAnswer{.missing = {{.slot = {3, 4}, .tokens = indices()},
                                {.slot = {3, 5}, .tokens = indices()},
                                {.slot = {3, 6}, .tokens = indices()}},
                    .outputs = tensor},
      ExecuteAnswer{.key = {"model", 3, 1}, .token_indices = indices(), .outputs = tensor},
      FetchBlobAnswer{tensor},
      shard_map(),
      plan(),
      status(),
      job(),
      PrepareListAnswer{.jobs = std::vector<PrepareStatusAnswer>(3, job())},
      providers(),
      ModelMetadataAnswer{R"({"a":")" + std::string(20'000, 'x') + R"("})"},
      DiscoverAnswer{}};
  for (const Answer& answer : answers) {
    const std::size_t real = real_bytes(answer);
    EXPECT_GT(real, 16'000U) << answer.index();
    EXPECT_LE(real, 2 * json_bytes(answer)) << answer.index();
    EXPECT_LE(json_bytes(answer), 2 * real) << answer.index();
  }
}

TEST(AnswerSize, OfAnAnswerOfFewMembersIsSmall) {
  EXPECT_LT(json_bytes(NodeDrainAnswer{}), 4096U);
  EXPECT_LT(json_bytes(NodeStatusAnswer{}), 4096U);
}

}  // namespace
}  // namespace tenzro::rpc
