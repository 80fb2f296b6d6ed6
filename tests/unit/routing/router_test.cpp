#include "tenzro/routing/router.hpp"

#include <gtest/gtest.h>

#include "support/gate_builder.hpp"

namespace tenzro::routing {
namespace {

using testing::plain_gate;

TEST(Router, KeepsItsOwnCopiesSoThatTheBlobMayGo) {
  auto gate = std::make_unique<wire::GateBlob>(plain_gate(4));
  gate->bias = {1, 2, 3, 4};
  gate->per_expert_scale = {5, 6, 7, 8};
  const Router router(*gate);
  gate.reset();
  EXPECT_EQ(router.num_experts(), 4U);
  EXPECT_EQ(router.bias()[3], 4.0F);
  EXPECT_EQ(router.per_expert_scale()[0], 5.0F);
}

TEST(Router, DefaultTopKIsTheTablesThenTheSpecsThenNone) {
  wire::GateBlob gate = plain_gate(4);
  EXPECT_EQ(Router(gate).default_top_k(), std::nullopt);
  gate.spec.top_k = 3;
  EXPECT_EQ(Router(gate).default_top_k(), 3U);
  gate.tid2eid = {0, 1, 2, 3};
  gate.tid2eid_top_k = 2;
  EXPECT_EQ(Router(gate).default_top_k(), 2U);
  EXPECT_EQ(Router(gate).vocabulary(), 2U);
  EXPECT_EQ(Router(gate).table_row(1)[0], 2U);
}

TEST(Router, ScaleBelongsToTheOutputOnlyWhereTheSpecSaysSo) {
  wire::GateBlob gate = plain_gate(4);
  gate.spec.scale = 2.5;
  EXPECT_EQ(Router(gate).output_scale(), 1.0F);
  gate.spec.scale_on = wire::ScaleOn::output;
  EXPECT_EQ(Router(gate).output_scale(), 2.5F);
}

TEST(Router, BytesGrowWithItsVectors) {
  wire::GateBlob gate = plain_gate(4);
  const std::size_t before = Router(gate).bytes();
  gate.tid2eid.assign(100'000, 0);
  gate.tid2eid_top_k = 1;
  gate.bias.assign(4, 0);
  EXPECT_GE(Router(gate).bytes(), before + 100'000 * 4 + 4 * 4);
}

TEST(RouterDeathTest, AGateThatNoParserReturnsIsABug) {
  wire::GateBlob gate = plain_gate(6);
  gate.spec.n_group = 4;
  gate.spec.topk_group = 4;
  EXPECT_DEATH(Router{gate}, "num_experts_ % spec_.n_group");
  gate = plain_gate(6);
  gate.bias.assign(5, 0);
  EXPECT_DEATH(Router{gate}, "bias_");
}

}  // namespace
}  // namespace tenzro::routing
