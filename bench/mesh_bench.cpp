// What the mesh costs beside the same work done locally, over loopback, with signatures and
// verification.
//
// usage: mesh_bench [--json FILE] [--quick]
//
// A layer of 2048 x 256, top-8, Q8_0. Three nodes in this process: `local` holds gate and experts;
// `router` holds the gate, `holder` the experts. Forwards of 1, 8 and 32 rows run on local and on
// router in turn; the difference of the medians is what one remote holder adds.
//   call     added at 1 row, target 150 us
//   row      slope over rows, target 15 us
//   bytes    bytes a token-layer over two holders, against f32 base64 JSON one batch an expert
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/wire/gate_blob.hpp"

#include "bench_node.hpp"
#include "report.hpp"

namespace {

using namespace tenzro;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kWidth = 2048;
constexpr std::uint32_t kFfn = 256;
constexpr std::uint32_t kExperts = 16;
constexpr std::uint32_t kTopK = 8;
constexpr double kCallTargetUs = 150;
constexpr double kRowTargetUs = 15;

std::vector<float> random_values(Prng& prng, std::size_t count, float bound) {
  std::vector<float> values(count);
  for (float& value : values)
    value = bound * (static_cast<float>(prng.below(2001)) / 1000.0F - 1.0F);
  return values;
}

std::vector<std::byte> quantised(Prng& prng, std::uint32_t rows, std::uint32_t cols) {
  const std::size_t row_bytes = tensor::row_bytes(tensor::WeightType::q8_0, cols);
  std::vector<std::byte> bytes(rows * row_bytes);
  for (std::uint32_t r = 0; r < rows; ++r) {
    tensor::encode_row(tensor::WeightType::q8_0, random_values(prng, cols, 0.05F),
                       std::span(bytes).subspan(r * row_bytes, row_bytes));
  }
  return bytes;
}

BufferRef expert_blob(std::uint64_t seed) {
  Prng prng(seed);
  const auto gate = quantised(prng, kFfn, kWidth);
  const auto up = quantised(prng, kFfn, kWidth);
  const auto down = quantised(prng, kWidth, kFfn);
  compute::ExpertView view;
  view.gate = compute::MatrixView{tensor::WeightType::q8_0, kFfn, kWidth, gate};
  view.up = {tensor::WeightType::q8_0, kFfn, kWidth, up};
  view.down = {tensor::WeightType::q8_0, kWidth, kFfn, down};
  return BufferRef::copy_of(wire::make_expert_blob(view));
}

BufferRef gate_blob() {
  Prng prng(2);
  const auto router = random_values(prng, std::size_t{kExperts} * kWidth, 1.0F);
  wire::GateBlob gate;
  gate.num_experts = kExperts;
  gate.d_model = kWidth;
  gate.spec.declared = true;
  gate.spec.top_k = kTopK;
  gate.router = {tensor::WeightType::f32, kExperts, kWidth,
                 std::as_bytes(std::span<const float>(router))};
  return BufferRef::copy_of(wire::make_gate_blob(gate));
}

void load_experts(bench::BenchNode& node, const std::function<bool(ExpertIndex)>& holds) {
  for (ExpertIndex e = 0; e < kExperts; ++e) {
    if (!holds(e)) continue;
    node.call(
        rpc::ExpertLoadCall{.key = {"m", 0, e}, .has_inline = true, .blob = expert_blob(e + 1)});
  }
}

void load_gate(bench::BenchNode& node) {
  node.call(rpc::GateLoadCall{.key = {"m", 0}, .has_inline = true, .blob = gate_blob()});
}

rpc::ForwardCall forward_of(std::uint32_t rows, std::uint64_t seed) {
  Prng prng(seed);
  const auto values = random_values(prng, std::size_t{rows} * kWidth, 1.0F);
  rpc::ForwardCall call{.route = {.key = {"m", 0}, .d_model = kWidth}};
  call.route.hidden = {rows, kWidth,
                       BufferRef::copy_of(std::as_bytes(std::span<const float>(values)))};
  return call;
}

double microseconds_of(bench::BenchNode& node, const rpc::ForwardCall& call) {
  const Clock::time_point begin = Clock::now();
  node.call(call);
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void wait_until_known(bench::BenchNode& router, std::size_t replicas) {
  for (;;) {
    const auto map = std::get<rpc::ShardMapAnswer>(router.call(rpc::ShardMapCall{"m"}));
    const bool is_known = map.holders.size() == kExperts &&
                          std::all_of(map.holders.begin(), map.holders.end(), [&](const auto& row) {
                            return row.holders.size() >= replicas;
                          });
    if (is_known) return;
  }
}

/// Added microseconds, sample by sample, of the router over the node that holds everything.
std::vector<double> added_us(bench::BenchNode& local, bench::BenchNode& router, std::uint32_t rows,
                             std::size_t samples) {
  std::vector<double> added;
  for (std::size_t i = 0; i < samples; ++i) {
    const auto call = forward_of(rows, i);
    const double here = microseconds_of(local, call);
    added.push_back(microseconds_of(router, call) - here);
  }
  return added;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  std::size_t samples = 400;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) samples = 60;
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) json = argv[++i];
  }
  const auto folder = std::filesystem::temp_directory_path() / "tenzro-mesh-bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::vector<bench::Row> rows;
  {
    bench::BenchNode local({.data_dir = folder / "local"});
    bench::BenchNode router({.data_dir = folder / "router"});
    bench::BenchNode holder({.data_dir = folder / "holder", .bootstrap = {router.entry()}});
    load_gate(local);
    load_gate(router);
    load_experts(local, [](ExpertIndex) { return true; });
    load_experts(holder, [](ExpertIndex) { return true; });
    wait_until_known(router, 1);
    added_us(local, router, 1, 20);  // connections, first dials
    const auto one = added_us(local, router, 1, samples);
    const auto many = added_us(local, router, 32, samples);
    rows.push_back(bench::make_row("remote call, 1 row added", "ours", 1, "us", one,
                                   kCallTargetUs + kRowTargetUs));
    rows.push_back(bench::make_row("remote call, 32 rows added", "ours", 1, "us", many,
                                   kCallTargetUs + 32 * kRowTargetUs));
    rows.push_back(bench::make_row("remote row added", "ours", 1, "us",
                                   {(median(many) - median(one)) / 31}, kRowTargetUs));
  }
  std::filesystem::remove_all(folder);
  for (const bench::Row& row : rows) bench::print(row);
  return json.empty() || bench::write_json(json, rows) ? 0 : 1;
}
