#include <gtest/gtest.h>

#include "tenzro/catalog/catalog.hpp"

namespace tenzro::catalog {
namespace {

Model model(std::string_view id) {
  const Result<Catalog> catalog = Catalog::builtin();
  EXPECT_TRUE(catalog);
  return *catalog->find(id);
}

TEST(CatalogCheck, AnotherNumberIsRefusedNamingBoth) {
  ObservedShape observed;
  observed.num_experts = 128;
  const Status status = check(model("qwen3.6-35b-a3b"), observed);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::runtime);
  EXPECT_EQ(status.error().message(),
            "qwen3.6-35b-a3b: the checkpoint's num_experts is 128, the catalog's is 256");
}

TEST(CatalogCheck, EveryQuantityIsCompared) {
  const Model kimi = model("kimi-k3");
  const ObservedShape right{896, 16, 2, 7168, 3584, 3072, 93};
  EXPECT_TRUE(check(kimi, right));
  std::optional<std::uint32_t> ObservedShape::*const members[] = {
      &ObservedShape::num_experts,    &ObservedShape::experts_per_token,
      &ObservedShape::shared_experts, &ObservedShape::hidden,
      &ObservedShape::expert_width,   &ObservedShape::expert_ffn,
      &ObservedShape::layers};
  for (const auto member : members) {
    ObservedShape wrong = right;
    *(wrong.*member) += 1;
    EXPECT_FALSE(check(kimi, wrong));
  }
}

TEST(CatalogCheck, WhatWasNotObservedIsNotCompared) {
  EXPECT_TRUE(check(model("glm-5"), {}));
}

TEST(CatalogCheck, ADenseModelHasNoExpertsAndMayLeaveWidthsOut) {
  ObservedShape observed;
  observed.hidden = 1024;
  observed.layers = 24;
  observed.num_experts = 0;
  EXPECT_TRUE(check(model("qwen3.5-0.8b-mtp"), observed));
  observed.num_experts = 8;
  EXPECT_FALSE(check(model("qwen3.5-0.8b-mtp"), observed));
}

TEST(CatalogJson, BeginsWithTheKeysOfTheShape) {
  EXPECT_EQ(to_json(model("qwen3-30b-a3b")),
            R"({"model_id":"qwen3-30b-a3b","is_moe":true,"moe":{"num_experts":128,)"
            R"("experts_per_token":8,"shared_experts":0,"params_per_expert_x10":2},)"
            R"("architecture":"Qwen3Moe","repo":"Qwen/Qwen3-30B-A3B","layout":"qwen3_moe",)"
            R"("layers":48,"hidden":2048,"moe_layers":48,"dense_first":0,"hash_layers":0,)"
            R"("mtp_layers":0,"expert_width":2048,"expert_ffn":768,"shared_ffn":null})");
}

TEST(CatalogJson, ADenseModelHasANullShape) {
  EXPECT_EQ(to_json(model("qwen3.5-2b-mtp")),
            R"({"model_id":"qwen3.5-2b-mtp","is_moe":false,"moe":null,"architecture":"Qwen35",)"
            R"("repo":"Qwen/Qwen3.5-2B","layout":"dense","layers":null,"hidden":null})");
}

}  // namespace
}  // namespace tenzro::catalog
