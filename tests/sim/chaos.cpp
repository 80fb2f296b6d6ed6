#include "sim/chaos.hpp"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "sim/mesh.hpp"

namespace tenzro::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The holders that send only the beginning of a reply as if it were all. Why not other bits: what
/// a holder computes wrong and signs, below what a receipt binds, nobody could tell from the truth.
struct Liars {
  Prng prng;
  std::set<std::size_t> nodes;

  void tamper(std::size_t from, std::vector<BufferRef>& parts) {
    if (!nodes.contains(from) || parts.empty() || parts.back().empty()) return;
    const auto bytes = parts.back().bytes();
    parts.back() = BufferRef::copy_of(bytes.first(prng.below(bytes.size())));
  }
};

Status full_disk(const work::StoreOp& op) {
  const bool is_write = std::holds_alternative<work::SaveHolding>(op) ||
                        std::holds_alternative<work::PublishBlob>(op) ||
                        std::holds_alternative<work::OpenPartial>(op) ||
                        std::holds_alternative<work::WritePartial>(op) ||
                        std::holds_alternative<work::FinishPartial>(op);
  return is_write ? fail(ErrorCode::io, "", "no space left on device") : Status();
}

/// A random fault of what surrounds a process: its links, its clock, its disk, its honesty.
void disturb_surroundings(World& world, Liars& liars, Prng& prng, std::size_t victim) {
  switch (prng.below(8)) {
    case 0:
      world.cut(0, victim);
      break;
    case 1:
      world.cut(victim, 0);
      break;
    case 2:
      world.clog(0, victim);
      break;
    case 3:
      world.clog(victim, 0);
      break;
    case 4:
      world.slow_link(victim, milliseconds(prng.below(80)));
      break;
    case 5:
      world.at(victim).set_clock(milliseconds(prng.below(40'000)) - seconds(20));
      break;
    case 6:
      liars.nodes.insert(victim);
      break;
    case 7:
      world.at(victim).store_fault = full_disk;
      break;
  }
}

/// One random fault, or one random repair, of one of the first `victims` holders.
void disturb(Mesh& mesh, Liars& liars, Prng& prng, std::size_t victims) {
  World& world = mesh.world;
  const std::size_t victim = 1 + prng.below(victims);
  switch (prng.below(11)) {
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
      world.at(victim).slowness_percent = 100 + prng.below(2000);
      break;
    case 6:
      world.heal();
      liars.nodes.erase(victim);
      break;
    default:
      disturb_surroundings(world, liars, prng, victim);
      break;
  }
}

void repair_all(Mesh& mesh) {
  World& world = mesh.world;
  world.heal();
  world.tamper = nullptr;
  world.link() = LinkOptions{};
  for (std::size_t i = 1; i < world.size(); ++i) {
    world.go_on(i);
    world.slow_link(i, Duration{0});
    world.at(i).slowness_percent = 100;
    world.at(i).set_clock(milliseconds(0));
    world.at(i).store_fault = nullptr;
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
  Liars liars{.prng = Prng(chaos.seed ^ 0x11e5), .nodes = {}};
  mesh.world.tamper = [&](std::size_t from, wire::Protocol, std::vector<BufferRef>& parts) {
    liars.tamper(from, parts);
  };
  ChaosOutcome outcome;
  for (std::uint64_t i = 0; i < kChaosForwards; ++i) {
    if (prng.below(2) == 0) disturb(mesh, liars, prng, chaos.victims);
    const auto call = mesh_forward(i, 1 + static_cast<std::uint32_t>(prng.below(12)));
    const auto answer = mesh.forward(call);
    if (answer) {
      ++outcome.served;
      EXPECT_EQ(bits_of(*answer), mesh.expected(call))
          << "seed " << chaos.seed << ", forward " << i;
    } else {
      EXPECT_NE(answer.error().code, ErrorCode::internal)
          << "seed " << chaos.seed << ", forward " << i << ": " << answer.error().message();
      outcome.last_error = "forward " + std::to_string(i) + ": " + answer.error().message();
    }
    mesh.world.run_for(milliseconds(prng.below(400)));
  }
  expect_healed(mesh, chaos.seed);
  outcome.trace = mesh.world.trace();
  return outcome;
}

}  // namespace tenzro::testing
