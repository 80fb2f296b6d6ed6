// What the mesh costs beside the same work done locally, over loopback, with signatures and
// verification.
//
// usage: mesh_bench [--json FILE] [--quick] [--threads N]
//
// Each node has N workers; without the option one a core, as the daemon has.
//
// A layer of 2048 x 256, Q8_0. Nodes in this process: `local` holds gate and experts; `router`
// holds the gate, `holder` the experts. Forwards run on local and on router in turn; what one
// remote holder adds is the difference of each pair. Two carriers, and of each
//   top-1 of 1, 8, 32 tokens    as many rows of 2048 f32 come back
//   top-8 of 1, 4 tokens        8 rows come back for each: one an expert, to be combined here
// target 150 us a call and 15 us a row that comes back.
//   less receipts   the same without what a set of that shape takes when it is made and verified
//           alone on one thread of this run (median of as many): an estimate, because receipts
//           cannot be turned off; target 100 us a call and 8 us a row
//   bytes   of a token and layer over two holders, of the messages themselves, against requests and
//           replies of base64 f32 in JSON, one batch an expert: at least three times fewer
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/wire/gate_blob.hpp"

#include "bench_node.hpp"
#include "mesh_bytes.hpp"
#include "receipt_reply.hpp"
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
constexpr double kBareCallTargetUs = 100;
constexpr double kBareRowTargetUs = 8;
constexpr double kBytesTarget = 3;

struct Case {
  std::uint32_t tokens;
  std::uint32_t top_k;
  rpc::CarrierChoice carrier;
};

constexpr Case kCases[] = {
    {1, 1, rpc::CarrierChoice::q8},    {8, 1, rpc::CarrierChoice::q8},
    {32, 1, rpc::CarrierChoice::q8},   {1, 8, rpc::CarrierChoice::q8},
    {4, 8, rpc::CarrierChoice::q8},    {1, 1, rpc::CarrierChoice::dense},
    {8, 1, rpc::CarrierChoice::dense}, {32, 1, rpc::CarrierChoice::dense},
    {1, 8, rpc::CarrierChoice::dense}, {4, 8, rpc::CarrierChoice::dense},
};

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

rpc::ForwardCall forward_of(const Case& subject, std::uint64_t seed) {
  Prng prng(seed);
  const auto values = random_values(prng, std::size_t{subject.tokens} * kWidth, 1.0F);
  rpc::ForwardCall call{.route = {.key = {"m", 0}, .d_model = kWidth, .top_k = subject.top_k},
                        .carrier = subject.carrier};
  call.route.hidden = {subject.tokens, kWidth,
                       BufferRef::copy_of(std::as_bytes(std::span<const float>(values)))};
  return call;
}

double microseconds_of(bench::BenchNode& node, const rpc::ForwardCall& call) {
  const Clock::time_point begin = Clock::now();
  node.call(call);
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
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

struct Samples {
  std::vector<double> local;
  std::vector<double> added;
  std::vector<double> receipts;
};

/// Microseconds that the receipts of such a reply take, made and verified alone.
std::vector<double> receipts_alone(const Case& subject, std::size_t count) {
  bench::ReceiptReply reply(subject.tokens, subject.top_k,
                            subject.carrier == rpc::CarrierChoice::q8
                                ? receipts::CarrierKind::q8_0
                                : receipts::CarrierKind::dense);
  std::vector<double> samples;
  for (std::size_t i = 0; i < count; ++i) {
    const Clock::time_point begin = Clock::now();
    TENZRO_ASSERT(reply.verify(reply.make()));
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return samples;
}

/// Microseconds of the node that holds everything, and what the router takes beyond.
Samples measure(bench::BenchNode& local, bench::BenchNode& router, const Case& subject,
                std::size_t count) {
  Samples samples;
  for (std::size_t i = 0; i < count; ++i) {
    const auto call = forward_of(subject, i);
    const double here = microseconds_of(local, call);
    samples.local.push_back(here);
    samples.added.push_back(microseconds_of(router, call) - here);
  }
  samples.receipts = receipts_alone(subject, count);
  return samples;
}

std::vector<bench::Row> rows_of(const Case& subject, const Samples& samples, std::size_t threads) {
  const std::uint32_t back = subject.tokens * subject.top_k;
  const std::string name = std::string(subject.carrier == rpc::CarrierChoice::q8 ? "q8" : "dense") +
                           ", top-" + std::to_string(subject.top_k) + ", " +
                           std::to_string(subject.tokens) + " tokens";
  const bench::Row receipts =
      bench::make_row(name + ": receipts alone", "ours", 1, "us", samples.receipts);
  std::vector<double> bare = samples.added;
  for (double& sample : bare) sample -= receipts.value;
  return {bench::make_row(name + ": here", "local", threads, "us", samples.local),
          bench::make_row(name + ": added", "ours", threads, "us", samples.added,
                          kCallTargetUs + kRowTargetUs * back),
          receipts,
          bench::make_row(name + ": added, less receipts", "ours", threads, "us", bare,
                          kBareCallTargetUs + kBareRowTargetUs * back)};
}

void add_byte_rows(std::vector<bench::Row>& rows) {
  constexpr bench::TokenLayer kLayer{.width = kWidth, .top_k = kTopK, .holders = 2};
  const auto json = static_cast<double>(bench::json_bytes(kLayer));
  rows.push_back(bench::make_row("bytes of a token-layer", "json", 1, "bytes", {json}));
  for (const bool is_q8 : {true, false}) {
    const std::string carrier = is_q8 ? ", q8" : ", dense";
    const auto ours = static_cast<double>(bench::exec_bytes(kLayer, is_q8));
    rows.push_back(bench::make_row("bytes of a token-layer" + carrier, "ours", 1, "bytes", {ours}));
    rows.push_back(
        bench::make_row("times fewer" + carrier, "ours", 1, "times", {json / ours}, kBytesTarget));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  std::size_t samples = 400;
  std::size_t threads = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) samples = 60;
    if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
      threads = static_cast<std::size_t>(std::clamp(std::atoi(argv[++i]), 1, 256));
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) json = argv[++i];
  }
  const auto folder = std::filesystem::temp_directory_path() / "tenzro-mesh-bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::vector<bench::Row> rows;
  {
    bench::BenchNode local({.data_dir = folder / "local", .threads = threads});
    bench::BenchNode router({.data_dir = folder / "router", .threads = threads});
    bench::BenchNode holder(
        {.data_dir = folder / "holder", .bootstrap = {router.entry()}, .threads = threads});
    load_gate(local);
    load_gate(router);
    load_experts(local, [](ExpertIndex) { return true; });
    load_experts(holder, [](ExpertIndex) { return true; });
    wait_until_known(router, 1);
    for (const Case& subject : kCases) measure(local, router, subject, 20);  // dials, warms up
    for (const Case& subject : kCases) {
      const auto some = rows_of(subject, measure(local, router, subject, samples), threads);
      rows.insert(rows.end(), some.begin(), some.end());
    }
  }
  add_byte_rows(rows);
  std::filesystem::remove_all(folder);
  for (const bench::Row& row : rows) bench::print(row);
  return json.empty() || bench::write_json(json, rows) ? 0 : 1;
}
