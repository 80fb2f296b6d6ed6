// What repair takes after the loss of a holder, and what it costs those who are served meanwhile.
// Virtual time, so the figures do not depend on this machine.
//
// usage: repair_bench [--json FILE] [--quick]
//
//   limit   repair cores over twelve views of a model of 384 x 58 experts of 5 MB at two copies
//   each (sim/repair_world);
//           one node is lost. Time from the first admission's begin to the last, against the bytes
//           that the survivors' rates allow: 1 = the rate is the only limit; target 1.25
//   counted the same in passes of two, without a rate: hours
//   serve   six real nodes (sim/world), a router and five holders of a small layer that is served
//   all the time, and of
//           thousands of other experts, of which one holder's are lost: p99 of forwards while
//           copies are fetched under a byte rate, over p99 before; target 1.10. An admission
//           occupies one of a node's workers for as long as one of 5 MB does on one core, and the
//           rate is what gives such experts a fifth of a 1 Gb/s link.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tenzro/crypto/blake3.hpp"
#include "tenzro/wire/uri.hpp"

#include "report.hpp"
#include "sim/mesh.hpp"
#include "sim/repair_world.hpp"

namespace {

using namespace tenzro;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Mesh;
using testing::RepairWorld;

constexpr double kLimitTarget = 1.25;
constexpr double kServeTarget = 1.10;
constexpr std::size_t kLost = 2;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "repair_bench: %s\n", why.c_str());
  std::exit(1);
}

double seconds_of(Duration time) {
  return static_cast<double>(time.count()) / 1e6;
}

RepairWorld::Setup full_size(std::uint64_t seed, std::uint64_t bytes_per_s) {
  RepairWorld::Setup setup;
  setup.seed = seed;
  setup.layers = 58;
  setup.experts = 384;
  setup.link_bytes_per_s = 125'000'000;
  setup.repair.bytes_per_s = bytes_per_s;
  return setup;
}

/// Seconds from the end of the grace to the last copy, and what the slowest share at the rate alone
/// takes.
struct Repaired {
  double took_s = 0;
  double at_rate_s = 0;
};

Repaired lose_one(std::uint64_t seed, std::uint64_t bytes_per_s) {
  RepairWorld world(full_size(seed, bytes_per_s));
  world.run_until(minutes(12));
  const std::size_t missing = world.held(kLost);
  std::vector<std::size_t> before;
  for (std::size_t i = 0; i < 12; ++i) before.push_back(world.held(i));
  world.crash(kLost);
  // The pass that sees the loss comes within an interval of the end of the grace.
  Duration first{0};
  for (Duration end = minutes(12); world.watched().admitted < missing; end += seconds(1)) {
    if (end > minutes(12) + std::chrono::hours(24)) stop("the mesh did not heal");
    world.run_until(end);
    if (first == Duration{0} && world.watched().fetches > 0) first = end;
  }
  if (world.watched().races + world.watched().over_budget + world.watched().lost > 0)
    stop("two nodes raced, a budget was exceeded or an expert was lost");
  std::size_t most = 0;
  for (std::size_t i = 0; i < 12; ++i) most = std::max(most, world.held(i) - before[i]);
  const double rate = bytes_per_s == 0 ? 1 : static_cast<double>(bytes_per_s);
  return {seconds_of(world.watched().last_admission - first),
          static_cast<double>(most) * 5e6 / rate};
}

double at_share(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(static_cast<double>(values.size()) * share))];
}

/// Virtual milliseconds of forwards, one after another.
std::vector<double> forwards_ms(Mesh& mesh, std::uint64_t first, std::size_t count) {
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    const Instant begin = mesh.world.now();
    const auto answer = mesh.forward(testing::mesh_forward(first + i, 8));
    if (!answer) stop(answer.error().message());
    times.push_back(seconds_of(mesh.world.now() - begin) * 1e3);
  }
  return times;
}

struct Served {
  double p99_ratio = 0;
  double admitted_a_second = 0;
};

/// Loads `experts` others, two copies each, on the five holders.
void load_others(Mesh& mesh, std::size_t experts) {
  for (std::size_t e = 0; e < experts; ++e) {
    auto load = testing::mesh_expert_load(mesh.layer,
                                          static_cast<ExpertIndex>(e % mesh.layer.experts.size()));
    load.key.layer = 1;
    load.key.expert = static_cast<ExpertIndex>(e);
    load.uri = wire::format_blob_uri(crypto::blake3(load.blob.bytes()));
    for (std::size_t r = 0; r < 2; ++r) {
      if (!mesh.world.call(1 + (e + r * (1 + e % 4)) % 5, load)) stop("an expert was not loaded");
    }
  }
}

Served serve_while_healing(std::uint64_t seed, std::size_t experts, std::size_t forwards) {
  testing::MeshSetup setup{.seed = seed, .nodes = 6, .replicas = 3};
  setup.disk_bytes = 1ULL << 34U;
  setup.by_uri = true;
  const std::uint64_t expert_bytes = testing::make_mesh_layer(seed).experts[0].size();
  // 25 MB/s of experts of 5 MB: five a second.
  const std::uint64_t rate = expert_bytes * 5;
  setup.tune = [rate](std::size_t, node::Options& options) {
    options.repair.interval = seconds(20);
    options.repair.grace = seconds(40);
    options.repair.bytes_per_s = rate;
  };
  Mesh mesh(setup);
  for (std::size_t i = 0; i < 6; ++i) {
    mesh.world.at(i).workers = 4;
    mesh.world.at(i).admit_cost = std::chrono::milliseconds(5);
  }
  load_others(mesh, experts);
  mesh.world.run_for(seconds(60));
  mesh.world.crash(kLost);
  mesh.world.run_for(seconds(45));  // out of every view, its grace not over
  const double before = at_share(forwards_ms(mesh, 1000, forwards), 0.99);
  const auto admitted = [&] {
    std::uint64_t sum = 0;
    for (const std::size_t i : {1U, 3U, 4U, 5U})
      sum += mesh.world.at(i).node().repair().totals().admitted;
    return sum;
  };
  if (admitted() != 0) stop("copies were fetched too early");
  if (!mesh.wait_until([&] { return admitted() > 0; }, seconds(90))) stop("nothing was fetched");
  const Instant begin = mesh.world.now();
  const std::uint64_t first = admitted();
  const double during = at_share(forwards_ms(mesh, 50'000, forwards), 0.99);
  const double took = seconds_of(mesh.world.now() - begin);
  return {during / before, static_cast<double>(admitted() - first) / took};
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  bool is_quick = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      is_quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: repair_bench [--json FILE] [--quick]\n");
      return 2;
    }
  }
  const std::size_t seeds = is_quick ? 1 : 3;
  std::vector<bench::Row> rows;
  for (const std::uint64_t rate : {10'000'000U, 25'000'000U, 50'000'000U}) {
    std::vector<double> ratios;
    std::vector<double> minutes_taken;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const Repaired repaired = lose_one(seed, rate);
      ratios.push_back(repaired.took_s / repaired.at_rate_s);
      minutes_taken.push_back(repaired.took_s / 60);
    }
    const std::string name = "limit " + std::to_string(rate / 1'000'000) + " MB/s";
    rows.push_back(bench::make_row(name, "ours", 1, "x of the rate", ratios, kLimitTarget));
    rows.push_back(bench::make_row(name, "ours", 1, "min", minutes_taken));
  }
  if (!is_quick)
    rows.push_back(bench::make_row("counted", "ours", 1, "h", {lose_one(1, 0).took_s / 3600}));
  std::vector<double> p99;
  std::vector<double> admitted;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Served served = serve_while_healing(seed, is_quick ? 300 : 1000, is_quick ? 1000 : 3000);
    p99.push_back(served.p99_ratio);
    admitted.push_back(served.admitted_a_second);
  }
  rows.push_back(bench::make_row("serve", "ours", 1, "x of p99", p99, kServeTarget));
  rows.push_back(bench::make_row("serve", "ours", 1, "experts/s", admitted));
  for (const bench::Row& row : rows) bench::print(row);
  if (!json.empty() && !bench::write_json(json, rows)) stop("cannot write " + json);
  return 0;
}
