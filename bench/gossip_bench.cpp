// Gossip of a thousand nodes on a virtual clock, a tenth of calls lost: how long a new holding
// takes to be known to all, what the steady state costs in bytes and processor time, and what a
// changed record costs. usage: gossip_bench [--nodes N] [--json FILE]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/wire/beat.hpp"

#include "report.hpp"
#include "sim/gossip_world.hpp"

namespace tenzro::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::GossipWorld;

constexpr std::size_t kHeartbeatMs = 10'000;

/// Seconds of virtual time, in heartbeats, until all know; 10 where they do not.
double heartbeats_until_known(GossipWorld& world, std::size_t node) {
  constexpr std::size_t kStepMs = 250;
  for (std::size_t at = kStepMs; at <= 10 * kHeartbeatMs; at += kStepMs) {
    world.run_for(milliseconds(kStepMs));
    if (world.count_knowing(node) == world.size() - 1)
      return static_cast<double>(at) / static_cast<double>(kHeartbeatMs);
  }
  return 10;
}

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// Processor time of one check, of a message as long as a beat. The simulator checks a signature
/// once for all nodes; each real node pays for its own checks.
double signature_check_seconds() {
  constexpr std::size_t kChecks = 1000;
  const auto key = crypto::KeyPair::from_seed(crypto::Seed{1});
  const std::vector<std::uint8_t> message(wire::kBeatTag.size() + 80, 7);
  const crypto::Signature signature = key.sign(message);
  const double before = cpu_seconds();
  std::size_t good = 0;
  for (std::size_t i = 0; i < kChecks; ++i)
    good += crypto::verify(key.public_key(), message, signature) ? 1U : 0U;
  if (good != kChecks) std::printf("a good signature was refused\n");
  return (cpu_seconds() - before) / kChecks;
}

std::vector<Row> measure(std::size_t nodes) {
  const double check_seconds = signature_check_seconds();
  std::printf("one signature check: %.1f us\n", check_seconds * 1e6);
  GossipWorld world({.nodes = nodes, .seed = 1, .loss_per_mille = 100});
  world.run_for(seconds(40));
  if (!world.views_are_equal()) std::printf("views are not equal before the measurement\n");
  std::vector<double> rates;
  std::vector<double> spreads;
  std::vector<double> costs;
  std::vector<double> loads;
  const double pairs = static_cast<double>(nodes * (nodes - 1));
  for (std::size_t round = 0; round < 3; ++round) {
    std::uint64_t before = world.bytes_sent();
    const std::uint64_t checks_before = world.signature_checks();
    const double cpu_before = cpu_seconds();
    world.run_for(seconds(10));
    const double cpu =
        cpu_seconds() - cpu_before +
        static_cast<double>(world.signature_checks() - checks_before) * check_seconds;
    loads.push_back(cpu * 100 / 10 / static_cast<double>(nodes));
    rates.push_back(static_cast<double>(world.bytes_sent() - before) / 10 / pairs);
    const std::size_t node = nodes / 2 + round;
    before = world.record_bytes_sent();
    world.add_holding(node);
    spreads.push_back(heartbeats_until_known(world, node));
    const auto* peer = world.core(0).membership().find(world.address(node));
    costs.push_back(static_cast<double>(world.record_bytes_sent() - before) /
                    static_cast<double>(peer->sealed_record->size() * (nodes - 1)));
  }
  const std::string suffix = " nodes=" + std::to_string(nodes);
  return {make_row("gossip holding known to all" + suffix, "ours", 1, "heartbeats", spreads, 3),
          make_row("gossip steady state" + suffix, "ours", 1, "B/s a provider a node", rates, 64),
          make_row("gossip changed record" + suffix, "ours", 1, "x size a node", costs, 3),
          make_row("gossip idle node" + suffix, "ours", 1, "% of a core", loads, 1)};
}

}  // namespace
}  // namespace tenzro::bench

int main(int argc, char** argv) {
  std::size_t nodes = 1000;
  std::string json;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--nodes") nodes = std::strtoul(argv[i + 1], nullptr, 10);
    if (flag == "--json") json = argv[i + 1];
  }
  if (nodes < 10) return 2;
  const auto rows = tenzro::bench::measure(nodes);
  for (const auto& row : rows) tenzro::bench::print(row);
  return json.empty() || tenzro::bench::write_json(json, rows) ? 0 : 1;
}
