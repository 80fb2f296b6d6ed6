#include <algorithm>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"

#include "commands.hpp"
#include "format.hpp"
#include "table.hpp"

namespace tenzro::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// The input is always the same, so that two runs measure the same work.
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kSamplesMax = 1'000'000;
constexpr std::uint32_t kSecondsMax = 3600;
constexpr std::uint64_t kValuesMax = 12ULL << 20U;

struct BenchFlags {
  std::string mode = "forward";
  std::string model;
  std::uint32_t layer = 0;
  std::uint32_t d_model = 0;
  std::uint32_t tokens = 1;
  std::uint32_t seconds = 5;
};

/// Rows of values in [-1, 1) as base64.
std::string random_rows(std::uint64_t values) {
  Prng prng(kSeed);
  std::vector<float> rows(static_cast<std::size_t>(values));
  for (float& value : rows) {
    value = static_cast<float>(prng.below(1U << 20U)) / static_cast<float>(1U << 19U) - 1.0F;
  }
  return base64_encode(as_u8(std::as_bytes(std::span(rows))));
}

/// Nearest rank. Requires a sorted sample that is not empty.
std::uint64_t percentile(const std::vector<std::uint64_t>& sorted, std::uint64_t percent) {
  const std::uint64_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[static_cast<std::size_t>(std::max<std::uint64_t>(rank, 1) - 1)];
}

Outcome<std::uint64_t> timed_call(Node& node, const Request& request) {
  const Clock::time_point start = Clock::now();
  const Outcome<Json> result = node.call(request);
  if (!result) return failure(result.error());
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  return static_cast<std::uint64_t>(took.count());
}

void print(const BenchFlags& flags, std::vector<std::uint64_t> us, Session& session) {
  std::sort(us.begin(), us.end());
  std::uint64_t total_us = 0;
  for (const std::uint64_t each : us) total_us += each;
  const double calls_s = static_cast<double>(us.size()) * 1e6 /
                         static_cast<double>(std::max<std::uint64_t>(total_us, 1));
  const double tokens_s = calls_s * flags.tokens;
  if (session.settings.json) {
    const Json result = {{"mode", flags.mode},           {"tokens", flags.tokens},
                         {"calls", us.size()},           {"p50_us", percentile(us, 50)},
                         {"p99_us", percentile(us, 99)}, {"max_us", us.back()},
                         {"calls_per_second", calls_s},  {"tokens_per_second", tokens_s}};
    session.out << dump(result) << "\n";
    return;
  }
  Facts facts;
  facts.add("calls", std::to_string(us.size()) + " of " + flags.mode + ", " +
                         std::to_string(flags.tokens) + " tokens each, one after the other");
  facts.add("p50", microseconds_text(percentile(us, 50)));
  facts.add("p99", microseconds_text(percentile(us, 99)));
  facts.add("max", microseconds_text(us.back()));
  facts.add("calls/s", std::to_string(static_cast<std::uint64_t>(calls_s)));
  facts.add("tokens/s", std::to_string(static_cast<std::uint64_t>(tokens_s)));
  session.out << facts.render();
}

Outcome<void> bench(Session& session, const BenchFlags& flags) {
  const std::uint64_t values = std::uint64_t{flags.tokens} * flags.d_model;
  if (values > kValuesMax) {
    return failure(ExitCode::usage, "--tokens times --d-model: at most " +
                                        std::to_string(kValuesMax) + " values fit a request");
  }
  const Request request{.method = flags.mode == "route" ? "tenzro_moeRoute" : "tenzro_moeForward",
                        .params = {{"model_id", flags.model},
                                   {"layer", flags.layer},
                                   {"d_model", flags.d_model},
                                   {"hidden_states", random_rows(values)}}};
  // The first call connects, and may bring experts into memory.
  if (const auto warm_up = timed_call(session.node, request); !warm_up) {
    return failure(warm_up.error());
  }
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(flags.seconds);
  std::vector<std::uint64_t> us;
  while (us.size() < kSamplesMax && (us.empty() || Clock::now() < deadline)) {
    const Outcome<std::uint64_t> took = timed_call(session.node, request);
    if (!took && took.error().code == ExitCode::interrupted && !us.empty()) break;
    if (!took) return failure(took.error());
    us.push_back(*took);
  }
  print(flags, std::move(us), session);
  return {};
}

}  // namespace

void add_bench_command(CLI::App& app, Selection& selection) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App& command = *app.add_subcommand("bench", "time forwards or routes against a node");
  command.add_option("--mode", flags->mode, "forward or route")
      ->check(CLI::IsMember({"forward", "route"}))
      ->capture_default_str();
  command.add_option("--model-id", flags->model, "model")->required();
  command.add_option("--layer", flags->layer, "layer")->required();
  command.add_option("--d-model", flags->d_model, "width of a row")
      ->required()
      ->check(CLI::Range(1U, UINT32_MAX));
  command.add_option("--tokens", flags->tokens, "rows a call")
      ->check(CLI::Range(1U, UINT32_MAX))
      ->capture_default_str();
  command.add_option("--seconds", flags->seconds, "how long")
      ->check(CLI::Range(1U, kSecondsMax))
      ->capture_default_str();
  command.callback([flags, &selection] {
    selection.command = Command{};
    selection.command->program = [flags](Session& session) { return bench(session, *flags); };
  });
}

}  // namespace tenzro::cli
