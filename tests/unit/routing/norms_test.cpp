#include "tenzro/routing/norms.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "support/gate_builder.hpp"

namespace tenzro::routing {
namespace {

using testing::plain_gate;

TEST(RouterInput, IsCopiedWhereTheSpecSaysNothing) {
  const Router router(plain_gate(2, 2));
  EXPECT_FALSE(router.transforms_input());
  const std::vector<float> rows{1, -2, 3, 4e-30F};
  std::vector<float> out(4);
  normalize_router_input(router, rows, out);
  EXPECT_EQ(out, rows);
}

TEST(RouterInput, IsDividedByItsRootMeanSquareAndThenScaled) {
  wire::GateBlob gate = plain_gate(2, 2);
  gate.spec.input_norm = wire::InputNorm::rms;
  gate.spec.input_norm_eps = 0;
  gate.input_scale = {2, 10};
  const Router router(gate);
  EXPECT_TRUE(router.transforms_input());
  std::vector<float> rows{3, 4, -300, -400};
  normalize_router_input(router, rows, rows);
  const float rms = std::sqrt(12.5F);
  EXPECT_FLOAT_EQ(rows[0], 3 / rms * 2);
  EXPECT_FLOAT_EQ(rows[1], 4 / rms * 10);
  EXPECT_FLOAT_EQ(rows[2], -rows[0]);
}

TEST(RouterInput, AScaleAloneIsApplied) {
  wire::GateBlob gate = plain_gate(2, 2);
  gate.input_scale = {2, 0.5F};
  const Router router(gate);
  EXPECT_TRUE(router.transforms_input());
  const std::vector<float> rows{3, 4};
  std::vector<float> out(2);
  normalize_router_input(router, rows, out);
  EXPECT_EQ(out, (std::vector<float>{6, 2}));
}

TEST(RouterInput, AZeroRowStaysZeroAndAHugeOneStaysFinite) {
  wire::GateBlob gate = plain_gate(2, 2);
  gate.spec.input_norm = wire::InputNorm::rms;
  const Router router(gate);
  std::vector<float> rows{0, 0, 3e38F, -3e38F};
  normalize_router_input(router, rows, rows);
  EXPECT_EQ(rows, (std::vector<float>{0, 0, 1, -1}));
}

TEST(LatentNorm, WeighsEachFeatureInPlace) {
  wire::GateBlob gate = plain_gate(2, 4);
  gate.latent_norm = {1, 3};
  gate.spec.latent_norm_eps = 1.0;
  const Router router(gate);
  ASSERT_TRUE(router.has_latent());
  std::vector<float> rows{1, 1};
  apply_latent_norm(router, rows);
  EXPECT_FLOAT_EQ(rows[0], 1 / std::sqrt(2.0F));
  EXPECT_FLOAT_EQ(rows[1], 3 / std::sqrt(2.0F));
}

}  // namespace
}  // namespace tenzro::routing
