// Expert FFNs on the CPU backend: tokens a second, and how near they come to the memory's and the
// cores' limits.
//
// usage: ffn_bench [--json FILE] [--table] [--quick] [--cpu-time] [--fast] [--isa NAME]
//                  [--filter TEXT]
//
// A case is one SwiGLU expert of d_model x d_ff and one weight type, given M rows. Calls go round a
// set of experts larger than the last-level cache, so that M = 1 reads its weights from memory as a
// node does. GB/s counts resident weight bytes; GFLOP/s counts two operations a weight and row. p10
// and p90 are of the single calls. `target` is what the number is held against: for GB/s the rate
// at which the same threads read plain memory, in the same run; for GFLOP/s of Q8_0 from 32 rows
// on 150 a thread.
//
// --fast runs profile fast, which differs for BF16 alone. --cpu-time counts the processor time of
// the working thread and skips the cases of two threads: for a machine that others share, where
// wall time says more about them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/exec/pool.hpp"
#include "tenzro/kernels/cpu.hpp"

#include "report.hpp"

namespace {

using tenzro::tensor::WeightType;
namespace compute = tenzro::compute;
namespace kernels = tenzro::kernels;

constexpr std::size_t kExpertBytesMin = std::size_t{160} << 20U;

struct Options {
  std::string json;
  bool table = false;
  bool quick = false;
  bool cpu_time = false;
  compute::Profile profile = compute::Profile::exact;
  std::optional<kernels::Isa> isa;
  std::string filter;
};

struct Quantisation {
  const char* name;
  WeightType type;
  WeightType down;
};

// Q4_K_M keeps half of the down projections as Q6_K; this is the heavier half.
constexpr Quantisation kQuantisations[] = {{"F32", WeightType::f32, WeightType::f32},
                                           {"BF16", WeightType::bf16, WeightType::bf16},
                                           {"Q8_0", WeightType::q8_0, WeightType::q8_0},
                                           {"Q4_K_M", WeightType::q4_k, WeightType::q6_k}};

struct Shape {
  std::uint32_t d_model;
  std::uint32_t d_ff;
};

constexpr Shape kShapes[] = {{2048, 768}, {7168, 2048}};

double now_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds of each call: at least 5 calls, then until `budget` seconds have passed.
std::vector<double> time_calls(clockid_t clock, double budget, const std::function<void()>& call) {
  call();
  std::vector<double> seconds;
  const double begin = now_seconds(clock);
  while (seconds.size() < 5 || (now_seconds(clock) - begin < budget && seconds.size() < 10'000)) {
    const double start = now_seconds(clock);
    call();
    seconds.push_back(now_seconds(clock) - start);
  }
  return seconds;
}

/// `amount` a call, as a rate for each call.
std::vector<double> rates_of(std::vector<double> seconds, double amount) {
  for (double& value : seconds) value = amount / value;
  return seconds;
}

/// Random bytes that are valid weights: small scales, any quants.
std::vector<std::byte> make_weights(WeightType type, std::size_t rows, std::size_t cols,
                                    tenzro::Prng& prng) {
  // One encoded row, repeated: encoding every row would take longer than the measurement.
  std::vector<float> values(cols);
  for (float& value : values)
    value = static_cast<float>(static_cast<double>(prng.next() >> 11U) * 0x1p-53 - 0.5) * 0.05F;
  const std::size_t stride = tenzro::tensor::row_bytes(type, cols);
  std::vector<std::byte> bytes(rows * stride);
  tenzro::tensor::encode_row(type, values, std::span(bytes).first(stride));
  for (std::size_t row = 1; row < rows; ++row)
    std::memcpy(bytes.data() + row * stride, bytes.data(), stride);
  return bytes;
}

using Resident = std::shared_ptr<const compute::ResidentExpert>;

std::vector<Resident> make_experts(compute::Backend& backend, Shape shape,
                                   const Quantisation& quantisation) {
  tenzro::Prng prng(1);
  const auto gate = make_weights(quantisation.type, shape.d_ff, shape.d_model, prng);
  const auto down = make_weights(quantisation.down, shape.d_model, shape.d_ff, prng);
  const compute::MatrixView wide{
      .type = quantisation.type, .rows = shape.d_ff, .cols = shape.d_model, .bytes = gate};
  const compute::MatrixView tall{
      .type = quantisation.down, .rows = shape.d_model, .cols = shape.d_ff, .bytes = down};
  const compute::ExpertView view{.spec = {},
                                 .gate = wide,
                                 .up = wide,
                                 .down = tall,
                                 .gate_bias = {},
                                 .up_bias = {},
                                 .down_bias = {}};
  compute::SerialExecutor serial;
  std::vector<Resident> experts;
  for (std::size_t bytes = 0; bytes < kExpertBytesMin || experts.size() < 2;
       bytes += experts.back()->bytes()) {
    auto resident = backend.upload_expert(view, serial);
    if (!resident) {
      std::fprintf(stderr, "%s\n", resident.error().message().c_str());
      return {};
    }
    experts.push_back(*resident);
  }
  return experts;
}

/// Reads `count` words, a multiple of 32, in four streams at once, as the kernels read: one alone
/// draws less.
std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count / 4; i += 8) {
    for (std::size_t stream = 0; stream < 4; ++stream) {
      const std::uint64_t* line = words + stream * (count / 4) + i;
      __builtin_prefetch(line + 1024);
      sum += line[0] + line[1] + line[2] + line[3] + line[4] + line[5] + line[6] + line[7];
    }
  }
  return sum;
}

class Bench {
 public:
  Bench(const Options& options, compute::Backend& backend)
      : options_(&options), backend_(&backend) {}

  void run() {
    for (const std::size_t threads : thread_counts()) measure_memory(threads);
    for (const Shape shape : kShapes) {
      for (const Quantisation& quantisation : kQuantisations) measure_expert(shape, quantisation);
    }
  }

  [[nodiscard]] const std::vector<tenzro::bench::Row>& rows() const { return rows_; }

  /// Whether an upload or a run gave an error; then the rows are worth nothing.
  [[nodiscard]] bool has_failed() const { return failed_; }

 private:
  static constexpr std::size_t kTokens[] = {1, 8, 32, 128, 512};

  [[nodiscard]] double budget() const { return options_->quick ? 0.05 : 0.6; }

  [[nodiscard]] clockid_t clock() const {
    return options_->cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  }

  [[nodiscard]] std::vector<std::size_t> thread_counts() const {
    if (options_->cpu_time) return {1};
    return {1, 2};
  }

  /// Runs `body` as the node runs a job: on a worker of a pool of `threads`.
  static void run_on_pool(std::size_t threads,
                          const std::function<void(compute::Executor&)>& body) {
    tenzro::exec::Pool pool({.threads = threads});
    std::promise<void> done;
    const bool taken = pool.submit(tenzro::exec::Priority::compute, [&] {
      body(pool);
      done.set_value();
    });
    if (taken) done.get_future().wait();
  }

  void measure_memory(std::size_t threads) {
    constexpr std::size_t kWords = kExpertBytesMin / sizeof(std::uint64_t);
    constexpr std::size_t kParts = 64;
    std::vector<std::uint64_t> words(kWords, 1);
    std::vector<std::uint64_t> sums(kParts);
    const auto read_part = [&](std::size_t part) {
      sums[part] += sum_of(words.data() + part * (kWords / kParts), kWords / kParts);
    };
    std::vector<double> seconds;
    run_on_pool(threads, [&](compute::Executor& executor) {
      seconds = time_calls(clock(), budget(), [&] { executor.parallel_for(kParts, read_part); });
    });
    const auto rates = rates_of(std::move(seconds), static_cast<double>(kExpertBytesMin) * 1e-9);
    add(tenzro::bench::make_row("read memory", "ceiling", threads, "GB/s", rates));
    memory_[threads] = rows_.back().value;
  }

  void measure_expert(Shape shape, const Quantisation& quantisation) {
    const std::string name =
        std::to_string(shape.d_model) + "x" + std::to_string(shape.d_ff) + " " + quantisation.name;
    if (name.find(options_->filter) == std::string::npos) return;
    const auto experts = make_experts(*backend_, shape, quantisation);
    failed_ = failed_ || experts.empty();
    if (experts.empty()) return;
    for (const std::size_t tokens : kTokens) {
      for (const std::size_t threads : thread_counts()) {
        measure(name + " M=" + std::to_string(tokens), shape, experts, tokens, threads);
      }
    }
  }

  void measure(const std::string& name, Shape shape, const std::vector<Resident>& experts,
               std::size_t tokens, std::size_t threads) {
    std::vector<float> input(tokens * shape.d_model);
    tenzro::Prng prng(2);
    for (float& value : input)
      value = static_cast<float>(static_cast<double>(prng.next() >> 11U) * 0x1p-53 - 0.5);
    std::vector<float> out(input.size());
    std::vector<std::uint32_t> rows(tokens);
    for (std::size_t i = 0; i < tokens; ++i) rows[i] = static_cast<std::uint32_t>(i);
    std::size_t turn = 0;
    const auto run_next = [&](compute::Executor& executor) {
      const compute::ExpertBatch batch{
          .expert = experts[turn++ % experts.size()].get(), .rows = rows, .out = out.data()};
      const compute::ExpertsJob job{.profile = options_->profile,
                                    .input = input.data(),
                                    .input_rows = static_cast<std::uint32_t>(tokens),
                                    .d_model = shape.d_model,
                                    .batches = {&batch, 1}};
      failed_ = failed_ || !backend_->run_experts(job, executor).has_value();
    };
    std::vector<double> seconds;
    run_on_pool(threads, [&](compute::Executor& executor) {
      seconds = time_calls(clock(), budget(), [&] { run_next(executor); });
    });
    const double weights = 3.0 * shape.d_model * shape.d_ff;
    const auto count = static_cast<double>(tokens);
    const bool wide_q8 = name.find("Q8_0") != std::string::npos && tokens >= 32;
    const auto row = [&](double amount, const char* unit, std::optional<double> target) {
      add(tenzro::bench::make_row(name, path(), threads, unit, rates_of(seconds, amount), target));
    };
    row(count, "tokens/s", {});
    row(static_cast<double>(experts.front()->bytes()) * 1e-9, "GB/s",
        tokens == 1 ? std::optional(memory_[threads]) : std::nullopt);
    row(2e-9 * weights * count, "GFLOP/s",
        wide_q8 ? std::optional(150.0 * static_cast<double>(threads)) : std::nullopt);
  }

  [[nodiscard]] std::string path() const {
    return std::string(backend_->name()) + " " + std::string(compute::name_of(options_->profile));
  }

  void add(tenzro::bench::Row row) {
    if (options_->table) tenzro::bench::print(row);
    rows_.push_back(std::move(row));
  }

  const Options* options_;
  compute::Backend* backend_;
  double memory_[3] = {};  ///< GB/s by threads
  std::vector<tenzro::bench::Row> rows_;
  bool failed_ = false;
};

std::optional<Options> parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (word == "--table") {
      options.table = true;
    } else if (word == "--quick") {
      options.quick = true;
    } else if (word == "--fast") {
      options.profile = compute::Profile::fast;
    } else if (word == "--cpu-time") {
      options.cpu_time = true;
    } else if (word == "--json" && has_value) {
      options.json = arguments[++i];
    } else if (word == "--filter" && has_value) {
      options.filter = arguments[++i];
    } else if (word == "--isa" && has_value) {
      options.isa = kernels::isa_from_name(arguments[++i]);
      if (!options.isa) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (options.json.empty()) options.table = true;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse({argv + 1, argv + argc});
  if (!options) {
    std::fprintf(
        stderr,
        "usage: ffn_bench [--json FILE] [--table] [--quick] [--cpu-time] [--fast] [--isa NAME] "
        "[--filter TEXT]\n");
    return 2;
  }
  auto backend = kernels::make_cpu_backend({.isa = options->isa});
  if (!backend) {
    std::fprintf(stderr, "%s\n", backend.error().message().c_str());
    return 1;
  }
  Bench bench(*options, **backend);
  bench.run();
  if (bench.has_failed()) return 1;
  if (!options->json.empty() && !tenzro::bench::write_json(options->json, bench.rows())) {
    std::fprintf(stderr, "cannot write %s\n", options->json.c_str());
    return 1;
  }
  return 0;
}
