// What the JSON-RPC surface costs beside the compute of a local layer forward.
//
// usage: rpc_bench [--json FILE] [--quick] [--rows N]
//
// One layer of 128 experts, top-8, 2048 x 768, Q8_0 (--quick: 32 experts). For 1, 32 and 512 rows,
// interleaved:
//   surface  body text -> typed call -> (answer) -> reply text: parse, base64, JSON, copies
//   compute  the gate, expert and combine jobs of that call, on all worker threads
// The share is surface over compute; target: at most 10 % at 32 rows. Resident memory is held
// against the weights. --rows measures that many rows alone, 200 times: for a profile.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/exec/pool.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/rpc/exchange.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/work/bodies.hpp"

#include "report.hpp"

namespace {

using namespace tenzro;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kWidth = 2048;
constexpr std::uint32_t kFfn = 768;
constexpr std::uint32_t kTopK = 8;

struct Options {
  std::string json;
  std::uint32_t experts = 128;
  std::size_t samples = 15;
  std::vector<std::uint32_t> rows{1, 32, 512};
};

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double resident_mib() {
  std::ifstream in("/proc/self/status");
  std::string word;
  while (in >> word) {
    if (word != "VmRSS:") continue;
    double kib = 0;
    in >> kib;
    return kib / 1024;
  }
  return 0;
}

[[noreturn]] void stop(const Error& error) {
  std::fprintf(stderr, "rpc_bench: %s\n", error.message().c_str());
  std::exit(1);
}

template <typename T>
T expect(Result<T> result) {
  if (!result) stop(result.error());
  return std::move(*result);
}

float random_float(Prng& prng) {
  return static_cast<float>(prng.below(2001)) / 1000.0F - 1.0F;
}

/// Q8_0 blocks with random values and a plausible scale, without the cost of quantising.
std::vector<std::byte> random_blocks(Prng& prng, std::size_t rows, std::size_t cols) {
  std::vector<std::byte> bytes(rows * tensor::row_bytes(tensor::WeightType::q8_0, cols));
  const std::uint16_t scale = tensor::f32_to_f16(0.002F);
  for (std::size_t block = 0; block < bytes.size(); block += 34) {
    std::memcpy(bytes.data() + block, &scale, sizeof scale);
    for (std::size_t i = 2; i < 34; i += 4) {
      const std::uint64_t random = prng.next();
      for (std::size_t j = 0; j < 4; ++j) {
        bytes[block + i + j] =
            static_cast<std::byte>(static_cast<std::int8_t>((random >> (8 * j)) % 255));
        if (bytes[block + i + j] == std::byte{0x80}) bytes[block + i + j] = std::byte{0};
      }
    }
  }
  return bytes;
}

/// The layer, loaded the way a node loads it: from blobs, through the admit jobs.
class Layer {
 public:
  Layer(std::uint32_t experts, const work::JobContext& context) {
    Prng prng(3);
    for (std::uint32_t e = 0; e < experts; ++e) {
      const auto gate = random_blocks(prng, kFfn, kWidth);
      const auto up = random_blocks(prng, kFfn, kWidth);
      const auto down = random_blocks(prng, kWidth, kFfn);
      compute::ExpertView view;
      view.gate = compute::MatrixView{tensor::WeightType::q8_0, kFfn, kWidth, gate};
      view.up = {tensor::WeightType::q8_0, kFfn, kWidth, up};
      view.down = {tensor::WeightType::q8_0, kWidth, kFfn, down};
      const BufferRef blob = BufferRef::copy_of(wire::make_expert_blob(view));
      experts_.push_back(expect(admit_expert({.blob = blob}, context)).resident);
      bytes_ += experts_.back()->bytes();
    }
    std::vector<float> router(std::size_t{experts} * kWidth);
    for (float& value : router) value = random_float(prng);
    wire::GateBlob gate;
    gate.num_experts = experts;
    gate.d_model = kWidth;
    gate.spec.declared = true;
    gate.spec.top_k = kTopK;
    gate.router = {tensor::WeightType::f32, experts, kWidth,
                   std::as_bytes(std::span<const float>(router))};
    gate_ =
        expect(admit_gate({.blob = BufferRef::copy_of(wire::make_gate_blob(gate))}, context)).gate;
  }

  /// The three jobs of a forward; its outputs and slots.
  rpc::ForwardAnswer forward(const rpc::ForwardCall& call, const work::JobContext& context) const {
    const std::uint32_t tokens = call.route.hidden.count;
    const auto gated = expect(run_gate({.gate = gate_,
                                        .tokens = tokens,
                                        .hidden = call.route.hidden.data,
                                        .top_k = kTopK,
                                        .wants_expert_input = true},
                                       context));
    std::map<ExpertIndex, std::vector<std::uint32_t>> rows;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (const routing::Slot& slot : gated.routed.token(t)) rows[slot.expert].push_back(t);
    }
    work::RunExperts run{.round_to_q8 = true, .input = gated.expert_input, .width = kWidth};
    for (auto& [expert, list] : rows)
      run.batches.push_back({expert, experts_[expert], std::move(list)});
    auto ran = expect(run_experts(run, context));
    auto combined = expect(combine({.gate = gate_,
                                    .routed = gated.routed,
                                    .d_model = kWidth,
                                    .outputs = std::move(ran.outputs)},
                                   context));
    rpc::ForwardAnswer answer{.key = call.route.key,
                              .d_model = kWidth,
                              .top_k = kTopK,
                              .tokens = tokens,
                              .batches = static_cast<std::uint32_t>(rows.size()),
                              .outputs = std::move(combined.outputs),
                              .carrier = "q8",
                              .profile = "exact"};
    answer.routed = {.tokens = tokens, .slots_per_token = gated.routed.slots_per_token};
    for (const routing::Slot& slot : gated.routed.slots)
      answer.routed.slots.push_back({slot.expert, slot.weight});
    return answer;
  }

  [[nodiscard]] double weights_mib() const {
    return static_cast<double>(bytes_ + gate_->bytes) / (1 << 20);
  }

 private:
  std::vector<std::shared_ptr<const compute::ResidentExpert>> experts_;
  std::shared_ptr<const work::Gate> gate_;
  std::size_t bytes_ = 0;
};

BufferRef body_of(std::uint32_t rows) {
  Prng prng(rows);
  std::vector<float> values(std::size_t{rows} * kWidth);
  for (float& value : values) value = random_float(prng);
  const std::string hidden = base64_encode(as_u8(std::as_bytes(std::span<const float>(values))));
  return BufferRef::copy_of(
      R"({"jsonrpc":"2.0","id":1,"method":"tenzro_moeForward","params":{"model_id":"m","layer":0,"d_model":2048,)"
      R"("hidden_states":")" +
      hidden + "\"}}");
}

void measure(std::uint32_t rows, const Layer& layer, const work::JobContext& context,
             const Options& options, std::vector<bench::Row>& report) {
  const Base64Kernels base64 = kernels::base64_kernels(kernels::best_isa());
  const BufferRef body = body_of(rows);
  std::vector<double> surface;
  std::vector<double> compute;
  std::vector<double> share;
  for (std::size_t i = 0; i <= options.samples; ++i) {
    rpc::Exchange exchange;
    std::optional<rpc::Call> call;
    const double parse = seconds_of([&] {
      exchange = rpc::Exchange::parse(body, {.base64 = base64});
      call = exchange.take_call(0);
    });
    if (!call) stop({ErrorCode::internal, "", "the body was refused"});
    rpc::ForwardAnswer answer;
    const double work =
        seconds_of([&] { answer = layer.forward(std::get<rpc::ForwardCall>(*call), context); });
    BufferRef reply;
    const double encode = seconds_of([&] {
      exchange.set_outcome(0, rpc::Answer(std::move(answer)));
      reply = exchange.encode(base64);
    });
    if (i == 0) continue;  // the first touches memory for the first time
    surface.push_back((parse + encode) * 1e6);
    compute.push_back(work * 1e6);
    share.push_back(100 * (parse + encode) / work);
  }
  const std::string name = std::to_string(rows) + " rows of 2048, top-8, Q8_0";
  const std::size_t threads = context.executor.concurrency();
  const std::optional<double> target = rows == 32 ? std::optional(10.0) : std::nullopt;
  report.push_back(bench::make_row(name, "ours: surface", 1, "us", surface));
  report.push_back(bench::make_row(name, "ours: compute", threads, "us", compute));
  report.push_back(bench::make_row(name, "ours: share", threads, "%", share, target));
  for (std::size_t i = report.size() - 3; i < report.size(); ++i) bench::print(report[i]);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      options.experts = 32;
      options.samples = 5;
    } else if (word == "--json" && i + 1 < argc) {
      options.json = argv[++i];
    } else if (word == "--rows" && i + 1 < argc) {
      options.rows = {static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10))};
      options.samples = 200;
    } else {
      std::fprintf(stderr, "usage: rpc_bench [--json FILE] [--quick] [--rows N]\n");
      return 2;
    }
  }
  const auto backend = expect(kernels::make_cpu_backend({}));
  exec::Pool pool({.threads = std::max(1U, std::thread::hardware_concurrency())});
  const auto key = crypto::KeyPair::from_seed({});
  const work::JobContext context{*backend, pool, key};
  const double before = resident_mib();
  const Layer layer(options.experts, context);
  std::vector<bench::Row> report;
  for (const std::uint32_t rows : options.rows) measure(rows, layer, context, options, report);
  report.push_back(bench::make_row("resident memory above the weights", "ours", 1, "MiB",
                                   {resident_mib() - before - layer.weights_mib()}, 64.0));
  bench::print(report.back());
  if (!options.json.empty() && !bench::write_json(options.json, report)) {
    std::fprintf(stderr, "rpc_bench: cannot write %s\n", options.json.c_str());
    return 1;
  }
  return 0;
}
