#include "sim/chaos.hpp"

#include <gtest/gtest.h>

#include "sim/mesh.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// One random fault, or one random repair, of one of the first `victims` holders.
void disturb(Mesh& mesh, Prng& prng, std::size_t victims) {
  World& world = mesh.world;
  const std::size_t victim = 1 + prng.below(victims);
  switch (prng.below(9)) {
    case 0:
      if (world.at(victim).is_up()) world.crash(victim);
      break;
    case 1:
    case 2:
      if (!world.at(victim).is_up()) world.restart(victim);
      break;
    case 3:
      world.stop(victim);
      break;
    case 4:
      world.go_on(victim);
      break;
    case 5:
      world.cut(0, victim);
      break;
    case 6:
      world.heal();
      break;
    case 7:
      world.slow_link(victim, milliseconds(prng.below(80)));
      break;
    case 8:
      world.at(victim).slowness_percent = 100 + prng.below(2000);
      break;
  }
}

void repair_all(Mesh& mesh) {
  World& world = mesh.world;
  world.heal();
  world.link() = LinkOptions{};
  for (std::size_t i = 1; i < world.size(); ++i) {
    world.go_on(i);
    world.slow_link(i, Duration{0});
    world.at(i).slowness_percent = 100;
    if (!world.at(i).is_up()) world.restart(i);
  }
}

void expect_healed(Mesh& mesh, std::uint64_t seed) {
  repair_all(mesh);
  EXPECT_TRUE(mesh.wait_until([&] { return mesh.knows_all(0); }, seconds(180))) << "seed " << seed;
  // Quarantine ends by itself; the mesh then serves as if nothing had been.
  mesh.world.run_for(seconds(301));
  const auto call = mesh_forward(777, 9);
  const auto answer = mesh.forward(call);
  EXPECT_TRUE(answer) << "seed " << seed;
  EXPECT_EQ(answer ? bits_of(*answer) : "", mesh.expected(call)) << "seed " << seed;
}

}  // namespace

ChaosOutcome run_chaos(const Chaos& chaos) {
  Mesh mesh(
      {.seed = chaos.seed,
       .nodes = 6,
       .replicas = 3,
       .link = {.repeat_per_mille = 20, .reset_per_mille = chaos.reset_per_mille},
       .tune = [](std::size_t, node::Options& options) { options.forward_deadline = seconds(5); }});
  Prng prng(chaos.seed ^ 0x5eed);
  ChaosOutcome outcome;
  for (std::uint64_t i = 0; i < kChaosForwards; ++i) {
    if (prng.below(2) == 0) disturb(mesh, prng, chaos.victims);
    const auto call = mesh_forward(i, 1 + static_cast<std::uint32_t>(prng.below(12)));
    const auto answer = mesh.forward(call);
    if (answer) {
      ++outcome.served;
      EXPECT_EQ(bits_of(*answer), mesh.expected(call))
          << "seed " << chaos.seed << ", forward " << i;
    } else {
      outcome.last_error = "forward " + std::to_string(i) + ": " + answer.error().message();
    }
    mesh.world.run_for(milliseconds(prng.below(400)));
  }
  expect_healed(mesh, chaos.seed);
  outcome.trace = mesh.world.trace();
  return outcome;
}

}  // namespace tenzro::testing
