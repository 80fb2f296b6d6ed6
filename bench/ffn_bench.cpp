// Expert FFNs on the CPU backend, held against what the machine gives and what else could be run.
//
// usage: ffn_bench [--json FILE] [--table] [--quick] [--cpu-time] [--hot] [--filter TEXT]
//
// A case is one SwiGLU expert of d_model x d_ff and one pair of weight types, given M rows; every
// path of a case (ours in each profile and with AVX2 alone, ceilings, peers) is timed in turn, and
// medians are compared. Calls go round experts of 2 GiB together, so that weights come from memory
// as a node's do; --hot keeps two experts. GB/s counts the bytes that a path's weights take where
// it keeps them; GFLOP/s counts two operations a weight and row. Targets are ratios; --table prints
// each with what was reached. --quick goes round 256 MiB with fewer and shorter samples.
// --cpu-time counts the thread's own processor time where there is one thread: for a machine that
// others share. Two threads are timed by the wall.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/kernels/cpu.hpp"

#include "bench_experts.hpp"
#include "ceilings.hpp"
#include "contest.hpp"
#include "ffn_peers.hpp"
#include "report.hpp"

namespace {

using tenzro::tensor::WeightType;
namespace bench = tenzro::bench;
namespace compute = tenzro::compute;
namespace kernels = tenzro::kernels;

struct Options {
  std::string json;
  bool table = false;
  bool quick = false;
  bool cpu_time = false;
  bool hot = false;
  std::string filter;
};

// Q4_K_M keeps half of the down projections as Q6_K; this is the heavier half.
constexpr bench::Quantisation kQuantisations[] = {{"F32", WeightType::f32, WeightType::f32},
                                                  {"BF16", WeightType::bf16, WeightType::bf16},
                                                  {"Q8_0", WeightType::q8_0, WeightType::q8_0},
                                                  {"Q4_K_M", WeightType::q4_k, WeightType::q6_k}};
constexpr bench::Shape kShapes[] = {{2048, 768}, {7168, 2048}};
constexpr std::size_t kLayerExperts = 8;

/// One line of the table.
struct Goal {
  std::string text;
  double reached = 0;
  double wanted = 0;
};

/// Jobs of one row list over the experts of a case, the next expert or experts each time.
class Ours {
 public:
  Ours(compute::Backend& backend, const std::vector<bench::Resident>& experts, bench::Shape shape,
       std::size_t tokens, compute::Profile profile)
      : backend_(&backend),
        experts_(&experts),
        shape_(shape),
        profile_(profile),
        input_(bench::make_rows(tokens, shape.d_model)),
        rows_(tokens) {
    for (std::size_t i = 0; i < tokens; ++i) rows_[i] = static_cast<std::uint32_t>(i);
  }

  void run(std::size_t experts_a_call, compute::Executor& executor) {
    out_.resize(input_.size() * experts_a_call);
    std::vector<compute::ExpertBatch> batches;
    for (std::size_t i = 0; i < experts_a_call; ++i) {
      batches.push_back({.expert = (*experts_)[turn_++ % experts_->size()].get(),
                         .rows = rows_,
                         .out = out_.data() + i * input_.size()});
    }
    const compute::ExpertsJob job{.profile = profile_,
                                  .input = input_.data(),
                                  .input_rows = static_cast<std::uint32_t>(rows_.size()),
                                  .d_model = shape_.d_model,
                                  .batches = batches};
    if (!backend_->run_experts(job, executor)) std::abort();  // the shapes are ours
  }

 private:
  compute::Backend* backend_;
  const std::vector<bench::Resident>* experts_;
  bench::Shape shape_;
  compute::Profile profile_;
  std::vector<float> input_;
  std::vector<std::uint32_t> rows_;
  std::vector<float> out_;
  std::size_t turn_ = 0;
};

/// Reads memory from end to end, a piece a call.
std::function<void(compute::Executor&)> reading(const bench::ColdMemory& memory,
                                                const bench::Reader& reader) {
  return [&memory, reader, at = std::size_t{0}](compute::Executor& executor) mutable {
    constexpr std::size_t kPiece = std::size_t{2} << 20U;
    constexpr std::size_t kPieces = 8;
    const std::size_t first = at;
    at = (at + kPieces) % (memory.size() / kPiece);
    executor.parallel_for(kPieces, [&](std::size_t i) {
      static volatile std::uint64_t sink = 0;
      sink = sink + reader.read(memory.data() + (first + i) * kPiece, kPiece);
    });
  };
}

constexpr double kReadingGiga = static_cast<double>(std::size_t{16} << 20U) * 1e-9;

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(&options), memory_(options.hot ? std::size_t{16} << 20U : cold_bytes() / 2) {}

  [[nodiscard]] bool run() {
    const auto best = kernels::make_cpu_backend({});
    const auto avx2 = kernels::make_cpu_backend({.isa = kernels::Isa::avx2});
    if (!best || memory_.data() == nullptr) return false;
    best_ = best->get();
    avx2_ = avx2 ? avx2->get() : nullptr;
    for (const bench::Shape shape : kShapes) {
      for (const bench::Quantisation& quantisation : kQuantisations) {
        const bench::Weights weights = make_weights(shape, quantisation);
        if (weights.name().find(options_->filter) == std::string::npos) continue;
        if (!measure_weights(weights)) return false;
      }
    }
    return true;
  }

  [[nodiscard]] const std::vector<bench::Row>& rows() const { return rows_; }

  void print_goals() const {
    std::printf("\n%-72s %8s %8s\n", "target", "reached", "wanted");
    for (const Goal& goal : goals_) {
      std::printf("%-72s %8.2f %8.2f  %s\n", goal.text.c_str(), goal.reached, goal.wanted,
                  goal.reached >= goal.wanted ? "met" : "MISSED");
    }
  }

 private:
  [[nodiscard]] std::size_t cold_bytes() const {
    return options_->quick ? std::size_t{256} << 20U : std::size_t{2} << 30U;
  }

  [[nodiscard]] bench::ContestOptions one_thread() const {
    return {.clock = options_->cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
            .rounds = options_->quick ? std::size_t{7} : std::size_t{15},
            .sample_seconds = options_->quick ? 0.01 : 0.03};
  }

  bool measure_weights(const bench::Weights& weights) {
    const auto experts = upload(*best_, weights, options_->hot ? 1 : cold_bytes());
    if (experts.empty()) return false;
    std::unique_ptr<bench::GgmlExperts> plain;
    std::unique_ptr<bench::GgmlExperts> repacked;
    if (weights.quantisation.type != WeightType::bf16) {
      plain = make_ggml_experts(weights, experts.size(), bench::GgmlLayout::plain);
      if (weights.quantisation.type != WeightType::f32)
        repacked = make_ggml_experts(weights, experts.size(), bench::GgmlLayout::repacked);
    }
    for (const std::size_t tokens : {1U, 8U, 32U, 512U}) {
      measure_one_thread(weights, experts, tokens, plain.get(), repacked.get());
      measure_two_threads(weights, experts, tokens);
    }
    measure_layer(weights, experts);
    return true;
  }

  void measure_one_thread(const bench::Weights& weights,
                          const std::vector<bench::Resident>& experts, std::size_t tokens,
                          bench::GgmlExperts* plain, bench::GgmlExperts* repacked) {
    compute::SerialExecutor serial;
    const double giga_flop = 2e-9 * weights.products() * static_cast<double>(tokens);
    const double giga_bytes = static_cast<double>(experts.front()->bytes()) * 1e-9;
    const bool by_bytes = tokens == 1;  // bound by memory
    const double ours_amount = by_bytes ? giga_bytes : giga_flop;
    const double file_amount = by_bytes ? static_cast<double>(weights.bytes()) * 1e-9 : giga_flop;
    std::vector<bench::Contestant> paths;
    const auto add_ours = [&](const char* path, compute::Backend& backend,
                              compute::Profile profile) {
      auto ours = std::make_shared<Ours>(backend, experts, weights.shape, tokens, profile);
      paths.push_back({path, ours_amount, [ours, &serial] { ours->run(1, serial); }});
    };
    add_ours("exact", *best_, compute::Profile::exact);
    if (has_fast(weights.quantisation.type, tokens))
      add_ours("fast", *best_, compute::Profile::fast);
    if (avx2_ != nullptr && tokens > 1) add_ours("exact avx2", *avx2_, compute::Profile::exact);
    if (plain != nullptr) paths.push_back({"ggml", file_amount, plain->call_for(tokens)});
    if (repacked != nullptr)
      paths.push_back({"ggml repacked", file_amount, repacked->call_for(tokens)});
    add_ceilings(weights, tokens, serial, paths);
    keep(weights, tokens, paths, by_bytes ? "GB/s" : "GFLOP/s");
  }

  [[nodiscard]] bool has_fast(WeightType type, std::size_t tokens) const {
    const bool has_tiles = best_->name() == "cpu-amx" && tokens > 8;
    return type == WeightType::bf16 || (has_tiles && type != WeightType::f32);
  }

  void add_ceilings(const bench::Weights& weights, std::size_t tokens, compute::Executor& serial,
                    std::vector<bench::Contestant>& paths) const {
    if (tokens == 1) {
      for (const bench::Reader& reader : bench::readers()) {
        paths.push_back({"read, " + reader.name, kReadingGiga,
                         [read = reading(memory_, reader), &serial]() mutable { read(serial); }});
      }
      return;
    }
    if (tokens < 512) return;
    for (const bench::Products& kind : bench::products()) {
      if (kind.call) paths.push_back({kind.name, kind.giga, kind.call});
    }
    if (weights.quantisation.type != WeightType::f32) return;
    for (bench::DensePeer& peer : dense_peers(weights.shape, tokens)) {
      paths.push_back({peer.path, 2e-9 * weights.products() * static_cast<double>(tokens),
                       std::move(peer.call)});
    }
  }

  /// Times the paths, prints and keeps their rows, and what they say about the targets.
  void keep(const bench::Weights& weights, std::size_t tokens,
            const std::vector<bench::Contestant>& paths, const char* unit) {
    const auto rates = hold_contest(paths, one_thread());
    const std::string name = weights.name() + " M=" + std::to_string(tokens);
    std::map<std::string, double> medians;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      add_row(bench::make_row(name, paths[i].path, 1, unit, rates[i]));
      medians[paths[i].path] = rows_.back().value;
    }
    double read = 0;
    for (const auto& [path, value] : medians)
      if (path.starts_with("read")) read = std::max(read, value);
    const double ggml = std::max(value_of(medians, "ggml"), value_of(medians, "ggml repacked"));
    const bool is_q8 = weights.quantisation.type == WeightType::q8_0;
    const bool is_quantised = is_q8 || weights.quantisation.type == WeightType::q4_k;
    const bool has_amx = best_->name() == "cpu-amx";
    const double exact = medians.at("exact");
    if (tokens == 1 && is_quantised) goal(name + " exact / read", exact, read, is_q8 ? 0.9 : 0.85);
    if (tokens == 8 && is_quantised) goal(name + " exact / ggml", exact, ggml, 3);
    if (tokens == 32 && is_quantised) {
      goal(name + " exact / ggml", exact, ggml, !has_amx ? 4 : (is_q8 ? 6 : 4));
      goal(name + " exact avx2 / ggml", value_of(medians, "exact avx2"), ggml, 1.5);
    }
    if (tokens == 32 && is_quantised && has_amx)
      goal(name + " fast / ggml", value_of(medians, "fast"), ggml, is_q8 ? 8 : 6);
    if (tokens == 512 && weights.quantisation.type == WeightType::f32)
      goal(name + " exact / FMA", exact, medians.at("FMA f32"), 0.7);
    if (tokens == 512 && is_quantised && has_amx) {
      goal(name + " exact, TFLOP/s", exact, 1000, is_q8 ? 0.9 : 0.7);
      goal(name + " fast, TFLOP/s", value_of(medians, "fast"), 1000, is_q8 ? 1.5 : 1.2);
    }
  }

  static double value_of(const std::map<std::string, double>& medians, const std::string& path) {
    const auto found = medians.find(path);
    return found == medians.end() ? 0 : found->second;
  }

  void goal(std::string text, double reached, double held_against, double wanted) {
    if (reached > 0 && held_against > 0)
      goals_.push_back({std::move(text), reached / held_against, wanted});
  }

  void measure_two_threads(const bench::Weights& weights,
                           const std::vector<bench::Resident>& experts, std::size_t tokens) {
    compute::SerialExecutor serial;
    const double amount = tokens == 1 ? static_cast<double>(experts.front()->bytes()) * 1e-9
                                      : 2e-9 * weights.products() * static_cast<double>(tokens);
    Ours one(*best_, experts, weights.shape, tokens, compute::Profile::exact);
    Ours two(*best_, experts, weights.shape, tokens, compute::Profile::exact);
    bench::run_on_pool(2, [&](compute::Executor& pool) {
      keep_pair(weights.name() + " M=" + std::to_string(tokens),
                {{"exact", amount, [&] { one.run(1, serial); }},
                 {"exact", amount, [&] { two.run(1, pool); }}},
                tokens == 1 ? "GB/s" : "GFLOP/s");
    });
  }

  /// The same work on one thread and on two.
  void keep_pair(const std::string& name, const std::vector<bench::Contestant>& paths,
                 const char* unit) {
    bench::ContestOptions options = one_thread();
    options.clock = CLOCK_MONOTONIC;
    const auto rates = hold_contest(paths, options);
    for (std::size_t i = 0; i < paths.size(); ++i)
      add_row(bench::make_row(name + " wall", paths[i].path, i + 1, unit, rates[i]));
    goal(name + " two threads / one", bench::median_of(rates[1]), bench::median_of(rates[0]), 1.85);
  }

  /// One token and the experts of its layer, on two threads.
  void measure_layer(const bench::Weights& weights, const std::vector<bench::Resident>& experts) {
    bench::run_on_pool(2,
                       [&](compute::Executor& pool) { measure_layer_on(pool, weights, experts); });
  }

  void measure_layer_on(compute::Executor& pool, const bench::Weights& weights,
                        const std::vector<bench::Resident>& experts) {
    Ours ours(*best_, experts, weights.shape, 1, compute::Profile::exact);
    const double amount = static_cast<double>(kLayerExperts * experts.front()->bytes()) * 1e-9;
    std::vector<bench::Contestant> paths = {
        {"exact", amount, [&] { ours.run(kLayerExperts, pool); }}};
    for (const bench::Reader& reader : bench::readers()) {
      paths.push_back({"read, " + reader.name, kReadingGiga,
                       [read = reading(memory_, reader), &pool]() mutable { read(pool); }});
    }
    bench::ContestOptions options = one_thread();
    options.clock = CLOCK_MONOTONIC;
    const auto rates = hold_contest(paths, options);
    const std::string name = weights.name() + " layer of 8, M=1";
    double read = 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      add_row(bench::make_row(name, paths[i].path, 2, "GB/s", rates[i]));
      if (i > 0) read = std::max(read, rows_.back().value);
    }
    if (tenzro::tensor::is_quantized(weights.quantisation.type))
      goal(name + " exact / read, two threads", bench::median_of(rates[0]), read, 0.85);
  }

  void add_row(bench::Row row) {
    if (options_->table) print(row);
    rows_.push_back(std::move(row));
  }

  const Options* options_;
  bench::ColdMemory memory_;
  compute::Backend* best_ = nullptr;
  compute::Backend* avx2_ = nullptr;
  std::vector<bench::Row> rows_;
  std::vector<Goal> goals_;
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
    } else if (word == "--cpu-time") {
      options.cpu_time = true;
    } else if (word == "--hot") {
      options.hot = true;
    } else if (word == "--json" && has_value) {
      options.json = arguments[++i];
    } else if (word == "--filter" && has_value) {
      options.filter = arguments[++i];
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
    std::fprintf(stderr,
                 "usage: ffn_bench [--json FILE] [--table] [--quick] [--cpu-time] [--hot] "
                 "[--filter TEXT]\n");
    return 2;
  }
  Bench bench(*options);
  if (!bench.run()) {
    std::fprintf(stderr, "an upload failed, or there is no memory\n");
    return 1;
  }
  if (options->table) bench.print_goals();
  if (!options->json.empty() && !tenzro::bench::write_json(options->json, bench.rows())) {
    std::fprintf(stderr, "cannot write %s\n", options->json.c_str());
    return 1;
  }
  return 0;
}
