// What a fault of a holder costs a forward, in simulated meshes of real nodes on a virtual clock.
//
// usage: fault_bench [--json FILE] [--quick]
//
// Four nodes: a router that holds nothing, and three holders. The link takes 0.1 to 0.9 ms a
// message, a row of an expert 20 us. Virtual time, so the figures do not depend on this machine;
// the demonstration (cmake/demo.sh) shows the same with processes.
//   kill   the primary dies in mid-forward, without a signal: time added to the median of the same
//          mesh before, the worst of all seeds; target 150 ms; every output has the bits of one
//          node
//   slow   one of three holders answers 200 ms later: p99 over healthy p99, target 1.3, and calls
//          over those of the healthy mesh, target 1.05
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "report.hpp"
#include "sim/mesh.hpp"

namespace {

using namespace tenzro;
using std::chrono::milliseconds;
using testing::Mesh;

constexpr double kKillTargetMs = 150;
constexpr double kSlowTarget = 1.3;
constexpr double kWorkTarget = 1.05;
constexpr std::size_t kVictim = 1;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "fault_bench: %s\n", why.c_str());
  std::exit(1);
}

double milliseconds_of(Duration time) {
  return static_cast<double>(time.count()) / 1000;
}

/// Virtual milliseconds of one forward; its bits are checked.
double forward_ms(Mesh& mesh, std::uint64_t seed, std::uint32_t tokens) {
  const auto call = testing::mesh_forward(seed, tokens);
  const Instant begin = mesh.world.now();
  const auto answer = mesh.forward(call);
  if (!answer) stop(answer.error().message());
  const double took = milliseconds_of(mesh.world.now() - begin);
  if (testing::bits_of(*answer) != mesh.expected(call)) stop("the bits changed");
  return took;
}

std::vector<double> forwards_ms(Mesh& mesh, std::uint64_t first, std::size_t count) {
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(forward_ms(mesh, first + i, 8));
  return times;
}

double at_share(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(static_cast<double>(values.size()) * share))];
}

/// Added milliseconds when a holder dies half-way through a forward, one value a seed.
std::vector<double> kill_ms(std::size_t seeds) {
  std::vector<double> added;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Mesh mesh({.seed = seed, .nodes = 4, .replicas = 2});
    const double usual = at_share(forwards_ms(mesh, 100, 8), 0.5);
    const auto call = testing::mesh_forward(seed, 8);
    const Instant begin = mesh.world.now();
    const RequestId request = mesh.world.begin(0, call);
    mesh.world.run_for(Duration(static_cast<std::int64_t>(usual * 500)));
    mesh.world.crash(kVictim);
    std::optional<Result<rpc::Answer>> answer;
    mesh.world.run_until(
        [&] {
          answer = mesh.world.answer(0, request);
          return answer.has_value();
        },
        std::chrono::seconds(60));
    if (!answer || !*answer) stop("a forward failed when a holder died");
    if (testing::bits_of(std::get<rpc::ForwardAnswer>(**answer)) != mesh.expected(call))
      stop("the bits changed when a holder died");
    added.push_back(milliseconds_of(mesh.world.now() - begin) - usual);
  }
  return added;
}

struct Slow {
  std::vector<double> p99_ratios;
  std::vector<double> work_ratios;
};

Slow slow_holder(std::size_t seeds, std::size_t forwards) {
  Slow slow;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Mesh mesh({.seed = seed, .nodes = 4, .replicas = 3});
    const auto calls = [&] { return mesh.world.calls_sent(wire::Protocol::exec); };
    forwards_ms(mesh, 0, 50);  // holders become known
    const std::uint64_t begin = calls();
    const double healthy = at_share(forwards_ms(mesh, 1000, forwards), 0.99);
    const std::uint64_t healthy_calls = calls() - begin;
    mesh.world.slow_link(kVictim, milliseconds(200));
    const std::uint64_t before = calls();
    const double with_slow = at_share(forwards_ms(mesh, 2000, forwards), 0.99);
    slow.p99_ratios.push_back(with_slow / healthy);
    slow.work_ratios.push_back(static_cast<double>(calls() - before) /
                               static_cast<double>(healthy_calls));
  }
  return slow;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  std::size_t seeds = 32;
  std::size_t forwards = 500;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      seeds = 6;
      forwards = 200;
    }
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) json = argv[++i];
  }
  std::vector<bench::Row> rows;
  const std::vector<double> killed = kill_ms(seeds);
  rows.push_back(bench::make_row("kill of a holder in mid-forward, added", "ours", 1, "ms", killed,
                                 kKillTargetMs));
  rows.push_back(bench::make_row("the same, the worst seed", "ours", 1, "ms",
                                 {*std::max_element(killed.begin(), killed.end())}, kKillTargetMs));
  const Slow slow = slow_holder(seeds, forwards);
  rows.push_back(bench::make_row("one of three holders 200 ms slow, p99 over healthy", "ours", 1,
                                 "ratio", slow.p99_ratios, kSlowTarget));
  rows.push_back(bench::make_row("one of three holders 200 ms slow, calls over healthy", "ours", 1,
                                 "ratio", slow.work_ratios, kWorkTarget));
  for (const bench::Row& row : rows) bench::print(row);
  return json.empty() || bench::write_json(json, rows) ? 0 : 1;
}
