// Goal: every family's block gives the slots and outputs of its reference class.
// Method: the goldens of tests/data/router; logits from the module's own input norm and a naive
// matmul, then route, then naive experts.
#include "support/family_golden.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/routing/norms.hpp"
#include "tenzro/routing/route.hpp"

#include "support/naive_layer.hpp"
#include "support/reference_ffn.hpp"

namespace tenzro::routing {
namespace {

using testing::FamilyCase;
using testing::load_family_case;

const std::string kFolder = std::string(TENZRO_TEST_DATA) + "/router";

std::vector<float> logits_of(const FamilyCase& golden, const Router& router) {
  std::vector<float> rows(golden.hidden.size());
  normalize_router_input(router, golden.hidden, rows);
  std::vector<float> out;
  for (std::size_t at = 0; at < rows.size(); at += router.d_model()) {
    const std::vector<double> row(
        rows.begin() + static_cast<std::ptrdiff_t>(at),
        rows.begin() + static_cast<std::ptrdiff_t>(at + router.d_model()));
    for (const double x : testing::reference_matmul(golden.layer.gate.router, row, {})) {
      out.push_back(static_cast<float>(x));
    }
  }
  return out;
}

Result<Routed> route_case(const FamilyCase& golden, const Router& router,
                          std::span<const float> logits) {
  const std::vector<float> shared =
      testing::naive_shared_gate_logits(golden.layer.gate, golden.hidden);
  return route(router, {.logits = logits,
                        .tokens = golden.tokens,
                        .top_k = *router.default_top_k(),
                        .token_ids = golden.token_ids,
                        .shared_gate_logits = shared});
}

/// (id, weight) of one token by id, so that the order a class happens to use does not matter.
std::vector<std::pair<std::int64_t, float>> by_id(std::span<const Slot> slots) {
  std::vector<std::pair<std::int64_t, float>> out;
  for (const Slot& slot : slots) out.emplace_back(slot.expert, slot.weight);
  std::sort(out.begin(), out.end());
  return out;
}

void expect_golden_slots(const FamilyCase& golden, const Routed& routed) {
  ASSERT_EQ(routed.top_k, golden.top_k);
  for (std::uint32_t t = 0; t < golden.tokens; ++t) {
    std::vector<std::pair<std::int64_t, float>> expected;
    for (std::size_t k = 0; k < golden.top_k; ++k) {
      const std::size_t at = std::size_t{t} * golden.top_k + k;
      expected.emplace_back(golden.ids[at], golden.weights[at]);
    }
    std::sort(expected.begin(), expected.end());
    const auto got = by_id(routed.token(t).subspan(0, golden.top_k));
    for (std::size_t k = 0; k < golden.top_k; ++k) {
      EXPECT_EQ(got[k].first, expected[k].first) << "token " << t;
      EXPECT_NEAR(got[k].second, expected[k].second, 1e-5) << "token " << t;
    }
  }
}

/// Largest difference over largest magnitude of `expected`.
double relative_error(std::span<const float> got, std::span<const float> expected) {
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - double{expected[i]}));
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
  }
  return worst / largest;
}

class FamilyGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(FamilyGolden, SlotsAndOutputAreTheReferenceClasses) {
  const FamilyCase golden = load_family_case(GetParam(), kFolder);
  const Router router(golden.layer.gate);
  const std::vector<float> logits = logits_of(golden, router);
  const auto routed = route_case(golden, router, logits);
  ASSERT_TRUE(routed) << routed.error().message();
  expect_golden_slots(golden, *routed);
  const std::vector<float> output = testing::naive_output(
      {.gate = golden.layer.gate, .experts = golden.layer.experts}, golden.hidden, *routed);
  ASSERT_EQ(output.size(), golden.output.size());
  EXPECT_LT(relative_error(output, golden.output), 1e-4);
}

TEST_P(FamilyGolden, SlotsFollowFromTheReferencesOwnLogits) {
  const FamilyCase golden = load_family_case(GetParam(), kFolder);
  if (golden.logits.empty()) return;  // Gemma 4's class does not return them.
  const Router router(golden.layer.gate);
  std::vector<float> raw = golden.logits;
  if (router.spec().bias_on == wire::BiasOn::logits) {
    for (std::size_t i = 0; i < raw.size(); ++i) raw[i] -= router.bias()[i % router.num_experts()];
  }
  EXPECT_LT(relative_error(logits_of(golden, router), raw), 1e-5);
  const auto routed = route_case(golden, router, raw);
  ASSERT_TRUE(routed) << routed.error().message();
  expect_golden_slots(golden, *routed);
}

TEST_P(FamilyGolden, SlotsAreSortedAndTheSharedOneIsLast) {
  const FamilyCase golden = load_family_case(GetParam(), kFolder);
  const Router router(golden.layer.gate);
  const auto routed = route_case(golden, router, logits_of(golden, router));
  ASSERT_TRUE(routed);
  for (std::uint32_t t = 0; t < routed->tokens; ++t) {
    const auto routed_slots = routed->token(t).subspan(0, routed->top_k);
    EXPECT_TRUE(std::is_sorted(routed_slots.begin(), routed_slots.end(), [](auto& a, auto& b) {
      return a.weight != b.weight ? a.weight > b.weight : a.expert < b.expert;
    }));
    if (router.has_shared_slot()) {
      EXPECT_EQ(routed->token(t).back().expert, router.num_experts());
    }
  }
}

TEST_P(FamilyGolden, AGateBlobCarriesAllThatDecidesTheSlots) {
  const FamilyCase golden = load_family_case(GetParam(), kFolder);
  const std::vector<std::byte> blob = wire::make_gate_blob(golden.layer.gate);
  const auto parsed = wire::parse_gate_blob(blob);
  ASSERT_TRUE(parsed) << parsed.error().message();
  const Router before(golden.layer.gate);
  const Router after(*parsed);
  const std::vector<float> logits = logits_of(golden, before);
  const auto expected = route_case(golden, before, logits);
  const auto got = route_case(golden, after, logits_of(golden, after));
  ASSERT_TRUE(expected);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->slots, expected->slots);
  EXPECT_EQ(after.output_scale(), before.output_scale());
}

INSTANTIATE_TEST_SUITE_P(Cases, FamilyGolden, ::testing::ValuesIn(testing::family_case_names()),
                         [](const auto& one) { return one.param; });

TEST(FamilyGoldenFiles, EveryFamilyAndVariantIsACase) {
  EXPECT_EQ(testing::family_case_names().size(), 16U);
}

TEST(KimiK3, TheLatentSumBecomesTheOutputThroughTheModulesNorm) {
  const FamilyCase golden = load_family_case("kimi_k3", kFolder);
  const wire::GateBlob& gate = golden.layer.gate;
  const Router router(gate);
  std::vector<float> sums = golden.layer.tensors->floats("golden.latent_routed_sum");
  const std::vector<float> shared = golden.layer.tensors->floats("golden.shared_output");
  const std::size_t latent = sums.size() / golden.tokens;
  apply_latent_norm(router, sums);
  std::vector<float> output;
  for (std::size_t t = 0; t < golden.tokens; ++t) {
    const std::vector<double> row(sums.begin() + static_cast<std::ptrdiff_t>(t * latent),
                                  sums.begin() + static_cast<std::ptrdiff_t>((t + 1) * latent));
    for (const double x : testing::reference_matmul(*gate.latent_up, row, {})) {
      output.push_back(static_cast<float>(x) + shared[output.size()]);
    }
  }
  EXPECT_LT(relative_error(output, golden.output), 1e-5);
}

TEST(MinimaxM3, RouteReportsUnscaledWeightsAndTheOutputCarriesTheScale) {
  const FamilyCase golden = load_family_case("minimax_m3", kFolder);
  const Router router(golden.layer.gate);
  EXPECT_EQ(router.output_scale(), 2.0F);
  const auto routed = route_case(golden, router, golden.logits);
  ASSERT_TRUE(routed);
  float sum = 0;
  for (const Slot& slot : routed->token(0).subspan(0, routed->top_k)) sum += slot.weight;
  EXPECT_NEAR(sum, 1.0, 1e-6);
}

}  // namespace
}  // namespace tenzro::routing
