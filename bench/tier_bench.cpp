// What a holder's tiers give: hits, reads, and the index.
//
// usage: tier_bench [--json FILE] [--quick] [--folder FOLDER]
//
//   hit rate       384 x 58 experts, memory of half of them, two million uses from cold. Zipf(1.0)
//                  against the best fixed choice in hindsight; other traces against exact
//                  least-recently-used, as a difference
//   cold expert    5 MB in Q8_0, out of the page cache, hashed at every read: tenzro_moeExecute
//                  until its reply, against one stream of preads and the same call when it is warm
//   readahead      a forward over 8 experts of which 4 are on disk, its reads slowed down so that
//                  they take as long as its compute: read ahead, against read when first needed
//   reads          16 such blobs through the store, 8 at once, against 8 threads of preads
//   index          100,000 experts: a look-up, and a restart's reading (on /dev/shm: the syncs of
//                  making it are not what is measured)
// Rows of the disk need a folder on one whose page cache can be dropped: --folder.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/wire/gate_blob.hpp"

#include "bench_node.hpp"
#include "report.hpp"
#include "support/cache_trace.hpp"
#include "support/random_expert.hpp"
#include "tier_disk.hpp"
#include "tier_store.hpp"

namespace {

using namespace tenzro;
using Clock = std::chrono::steady_clock;
using Rows = std::vector<bench::Row>;

constexpr std::uint32_t kWidth = bench::kTierWidth;
constexpr std::uint32_t kFfn = bench::kTierFfn;
constexpr ExpertIndex kExperts = 8;
constexpr std::uint32_t kTokens = 64;
constexpr std::size_t kReadThreads = bench::kTierReaders;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// ---- hit rates

void add_hit_rates(Rows& rows) {
  constexpr std::size_t kUses = 2'000'000;
  constexpr std::uint32_t kAll = 384 * 58;
  constexpr std::size_t kHalf = kAll / 2;
  const auto zipf = testing::zipf_trace(kAll, kUses, 1);
  const double ours = testing::retention_hits(zipf, kHalf);
  rows.push_back(bench::make_row("hit rate, Zipf(1.0)", "best fixed", 1, "share",
                                 {testing::oracle_static_hits(zipf, kHalf)}));
  rows.push_back(bench::make_row("hit rate, Zipf(1.0)", "ours", 1, "share", {ours}));
  rows.push_back(bench::make_row("of the best fixed", "ours", 1, "share",
                                 {ours / testing::oracle_static_hits(zipf, kHalf)}, 0.97));
  const std::pair<const char*, testing::CacheTrace> others[] = {
      {"Zipf(1.0)", zipf},
      {"uniform", testing::uniform_trace(kAll, kUses, 1)},
      {"scan", testing::scan_trace(kAll, kUses, 1)},
      {"loop", testing::loop_trace(kAll, kUses)},
      {"replay", testing::replay_trace({}, kUses, 1)},
      {"replay, moving", testing::replay_trace({.subject_tokens = 5}, kUses, 1)}};
  for (const auto& [name, trace] : others) {
    for (const std::size_t capacity : {kHalf, kHalf / 4}) {
      const double difference =
          testing::retention_hits(trace, capacity) - testing::naive_lru_hits(trace, capacity);
      rows.push_back(bench::make_row(
          std::string("hits beyond LRU, ") + name + (capacity == kHalf ? "" : ", an eighth"),
          "ours", 1, "share", {difference}, -0.02));
    }
  }
}

// ---- a node's disk tier

BufferRef gate_blob() {
  Prng prng(2);
  const auto router = testing::random_values(prng, std::size_t{kExperts} * kWidth);
  wire::GateBlob gate;
  gate.num_experts = kExperts;
  gate.d_model = kWidth;
  gate.spec.declared = true;
  gate.spec.top_k = kExperts;
  gate.router = {tensor::WeightType::f32, kExperts, kWidth,
                 std::as_bytes(std::span<const float>(router))};
  return BufferRef::copy_of(wire::make_gate_blob(gate));
}

BufferRef rows_of(std::uint32_t count) {
  Prng prng(5);
  return testing::random_rows(prng, count, kWidth);
}

void load(bench::BenchNode& node, ExpertIndex expert) {
  node.call(rpc::ExpertLoadCall{
      .key = {"m", 0, expert},
      .has_inline = true,
      .blob = testing::random_expert(expert + 1, kWidth, kFfn, tensor::WeightType::q8_0)});
}

double execute(bench::BenchNode& node, ExpertIndex expert) {
  rpc::ExecuteCall call{.key = {"m", 0, expert}, .d_model = kWidth, .token_indices = {0}};
  call.hidden = {1, kWidth, rows_of(1)};
  call.carrier = call.hidden.data;
  const Clock::time_point begin = Clock::now();
  node.call(std::move(call));
  return seconds_since(begin);
}

/// Two experts take turns in a memory for one: each use but the second in a row is from disk.
void add_cold_expert(const std::string& folder, std::size_t samples, Rows& rows) {
  const std::uint64_t bytes = std::uint64_t{3} * kWidth * kFfn * 34 / 32;
  bench::BenchNode node({.data_dir = folder,
                         .store_threads = kReadThreads,
                         .holder = {.memory_budget_bytes = bytes * 5 / 2,
                                    .background_reads_max = 0,
                                    .verifies_every_read = true}});
  for (ExpertIndex e = 0; e < 2; ++e) load(node, e);
  std::vector<double> cold_ms;
  std::vector<double> parts_ms;
  std::vector<double> ratios;
  const std::vector<std::string> files = bench::files_below(folder + "/blobs");
  bool is_dropped = true;
  for (std::size_t i = 0; i < samples; ++i) {
    const ExpertIndex expert = i % 2;
    for (std::size_t f = 0; f < 2; ++f) is_dropped = bench::drop_from_cache(files[f]) && is_dropped;
    const double cold = execute(node, expert);
    const double warm = execute(node, expert);
    for (std::size_t f = 0; f < 2; ++f) is_dropped = bench::drop_from_cache(files[f]) && is_dropped;
    const double read = bench::read_seconds(files[i % 2]);
    if (i < 2) continue;  // the first reads of all
    cold_ms.push_back(cold * 1e3);
    parts_ms.push_back((read + warm) * 1e3);
    ratios.push_back(cold / (read + warm));
  }
  const char* where = is_dropped ? "" : " (cached)";
  rows.push_back(
      bench::make_row(std::string("pread and warm expert") + where, "parts", 1, "ms", parts_ms));
  rows.push_back(bench::make_row(std::string("cold expert") + where, "ours", 1, "ms", cold_ms));
  rows.push_back(bench::make_row(std::string("cold expert") + where, "of its parts", 1, "times",
                                 ratios, 1.25));
}

rpc::ForwardCall forward_call() {
  rpc::ForwardCall call{.route = {.key = {"m", 0}, .d_model = kWidth}};
  call.route.hidden = {kTokens, kWidth, rows_of(kTokens)};
  return call;
}

double forward(bench::BenchNode& node) {
  const rpc::ForwardCall call = forward_call();
  const Clock::time_point begin = Clock::now();
  node.call(call);
  return seconds_since(begin);
}

std::vector<double> half_cold(const std::string& folder, bool reads_ahead, std::size_t samples) {
  bench::SlowFiles files;
  bench::BenchNode node({.data_dir = folder,
                         .store_threads = kReadThreads,
                         .holder = {.background_reads_max = 0, .reads_ahead = reads_ahead},
                         .files = &files});
  node.call(rpc::GateLoadCall{.key = {"m", 0}, .has_inline = true, .blob = gate_blob()});
  for (ExpertIndex e = 0; e < kExperts; ++e) load(node, e);
  const auto status = std::get<rpc::ExpertStatusAnswer>(node.call(rpc::ExpertStatusCall{}));
  const std::uint64_t half = status.memory_bytes / 2;
  std::vector<double> times;
  for (std::size_t i = 0; i < samples; ++i) {
    double compute = forward(node);
    compute = std::min(compute, forward(node));
    node.set_memory_budget(half);  // what is above it gives way
    node.set_memory_budget(8ULL << 30U);
    files.set_rate(static_cast<double>(half) / compute);
    times.push_back(forward(node) * 1e3);
    files.set_rate(0);
  }
  return times;
}

void add_readahead(const std::string& folder, std::size_t samples, Rows& rows) {
  const auto with = half_cold(folder + "-with", true, samples);
  const auto without = half_cold(folder + "-without", false, samples);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < samples; ++i) ratios.push_back(without[i] / with[i]);
  rows.push_back(bench::make_row("forward, half cold", "when needed", 1, "ms", without));
  rows.push_back(bench::make_row("forward, half cold", "read ahead", 1, "ms", with));
  rows.push_back(bench::make_row("readahead gains", "ours", 1, "times", ratios, 1.6));
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  std::size_t samples = 42;
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) samples = 12;
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) json = argv[++i];
    if (std::strcmp(argv[i], "--folder") == 0 && i + 1 < argc) folder = argv[++i];
  }
  folder /= "tenzro-tier-bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  Rows rows;
  add_hit_rates(rows);
  add_cold_expert(folder / "cold", samples, rows);
  add_readahead(folder / "ahead", samples / 3, rows);
  bench::add_reads(folder / "reads", samples / 3, rows);
  bench::add_index(rows);
  std::filesystem::remove_all(folder);
  for (const bench::Row& row : rows) bench::print(row);
  return json.empty() || bench::write_json(json, rows) ? 0 : 1;
}
