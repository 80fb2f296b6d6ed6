// Goal: the fast selection equals the obvious one, for any spec a gate can carry.
// Method: random gates and logits from a seed, coarse values so that ties are common; the naive
// twin must agree on every id and every bit of every weight.
#include <algorithm>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/routing/route.hpp"

#include "support/gate_builder.hpp"
#include "support/naive_router.hpp"

namespace tenzro::routing {
namespace {

using testing::naive_route;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : prng_(seed) {}

  bool coin() { return prng_.below(2) == 0; }

  std::uint32_t upto(std::uint64_t most) {
    return static_cast<std::uint32_t>(1 + prng_.below(most));
  }

  /// Multiples of 1/`steps` in [-reach, reach].
  float value(float reach, std::uint64_t steps) {
    const auto span = static_cast<std::uint64_t>(2 * reach) * steps;
    return static_cast<float>(prng_.below(span + 1)) / static_cast<float>(steps) - reach;
  }

  std::vector<float> values(std::size_t count, float reach, std::uint64_t steps) {
    std::vector<float> out(count);
    for (float& one : out) one = value(reach, steps);
    return out;
  }

 private:
  Prng prng_;
};

wire::GateBlob random_gate(Dice& dice) {
  const std::uint32_t n_group = dice.coin() ? 1 : dice.upto(8);
  wire::GateBlob gate = testing::plain_gate(n_group * dice.upto(dice.coin() ? 4 : 112));
  wire::RouterSpec& spec = gate.spec;
  spec.n_group = n_group;
  spec.topk_group = dice.upto(n_group);
  spec.scoring = static_cast<wire::Scoring>(dice.upto(3) - 1);
  spec.epsilon = spec.scoring == wire::Scoring::softmax && dice.coin() ? 0 : 1e-20;
  spec.epsilon_is_floor = dice.coin();
  spec.normalize = dice.coin();
  spec.scale = dice.coin() ? 1.0 : 2.827;
  spec.scale_on = dice.coin() ? wire::ScaleOn::weights : wire::ScaleOn::output;
  spec.bias_on = dice.coin() ? wire::BiasOn::selection : wire::BiasOn::logits;
  spec.shared_count = dice.coin() ? 0 : dice.upto(2);
  spec.shared_gate = dice.coin() ? wire::SharedGate::none : wire::SharedGate::sigmoid;
  if (spec.scoring == wire::Scoring::softmax && dice.coin()) {
    spec.order = wire::SelectionOrder::topk_then_softmax;
  }
  if (dice.coin()) gate.bias = dice.values(gate.num_experts, 2, 4);
  if (dice.coin()) gate.per_expert_scale = dice.values(gate.num_experts, 2, 2);
  return gate;
}

/// Ten rows of distinct experts, each a run that starts anywhere.
void add_table(wire::GateBlob& gate, Dice& dice) {
  gate.tid2eid_top_k = dice.upto(std::min(gate.num_experts, 8U));
  for (int row = 0; row < 10; ++row) {
    const std::uint32_t first = dice.upto(gate.num_experts);
    for (std::uint32_t i = 0; i < gate.tid2eid_top_k; ++i) {
      gate.tid2eid.push_back((first + i) % gate.num_experts);
    }
  }
}

void expect_twins_agree(Dice& dice) {
  wire::GateBlob gate = random_gate(dice);
  if (dice.upto(8) == 1) add_table(gate, dice);
  const Router router(gate);
  const std::uint32_t tokens = dice.upto(6);
  const std::uint32_t asked = dice.coin() ? dice.upto(16) : dice.upto(gate.num_experts + 2);
  const std::uint32_t top_k = gate.is_hash_routed() ? gate.tid2eid_top_k : asked;
  const std::vector<float> logits =
      dice.values(std::size_t{tokens} * gate.num_experts, 8, dice.coin() ? 1 : 4096);
  const std::vector<float> shared = dice.values(tokens, 4, 4096);
  std::vector<std::int64_t> ids;
  for (std::uint32_t t = 0; t < tokens; ++t) ids.push_back(dice.upto(10) - 1);

  const auto routed = route(router, {.logits = logits,
                                     .tokens = tokens,
                                     .top_k = top_k,
                                     .token_ids = ids,
                                     .shared_gate_logits = shared});
  ASSERT_TRUE(routed) << routed.error().message();
  ASSERT_EQ(routed->slots.size(), std::size_t{tokens} * routed->slots_per_token);
  for (std::uint32_t t = 0; t < tokens; ++t) {
    const auto row = std::span(logits).subspan(std::size_t{t} * gate.num_experts, gate.num_experts);
    const std::vector<Slot> expected = naive_route(gate, row, top_k, ids[t], shared[t]);
    const std::span<const Slot> got = routed->token(t);
    EXPECT_EQ(std::vector<Slot>(got.begin(), got.end()), expected) << "token " << t;
  }
}

class RouteRandom : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RouteRandom, EqualsTheNaiveTwin) {
  constexpr int kGates = 100;
  Dice dice(GetParam());
  for (int i = 0; i < kGates && !HasFatalFailure(); ++i) expect_twins_agree(dice);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RouteRandom, ::testing::Range<std::uint64_t>(0, 20));

}  // namespace
}  // namespace tenzro::routing
