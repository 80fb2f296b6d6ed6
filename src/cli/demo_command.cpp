#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/bytes.hpp"

#include "commands.hpp"
#include "table.hpp"
#include "trace.hpp"

namespace tenzro::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{20};
constexpr int kPollsMax = 30'000;

struct DemoFlags {
  std::string model_dir;
  std::string quant = "q8_0";
  /// Absent: what the preset costs a layer, with room.
  std::optional<double> error_max;
};

/// One line of the table: one traced pass, served by the node.
struct Measured {
  std::size_t experts_used = 0;
  bool has_traced_ids = true;
  double relative_error = 0;
  double milliseconds = 0;
};

Outcome<Json> wait_for_job(Session& session, const std::string& job_id) {
  for (int polls = 0; polls < kPollsMax; ++polls) {
    auto job =
        session.node.call({.method = "tenzro_moePrepareStatus", .params = {{"job_id", job_id}}});
    if (!job) return job;
    const std::string state = text(*job, "state");
    if (state == "completed") return job;
    if (state != "running")
      return failure(ExitCode::refused, "prepare job " + state + ": " + text(*job, "error"));
    if (!session.wait(kPollInterval)) return failure(ExitCode::interrupted, "interrupted");
  }
  return failure(ExitCode::refused, "prepare job " + job_id + " does not end");
}

/// Slices and quantises one layer, then loads its gate and every expert by URI. The number of
/// experts.
Outcome<std::size_t> bring_up_layer(Session& session, const DemoFlags& flags,
                                    const std::string& model, std::uint32_t layer) {
  std::error_code error;
  const std::string source =
      std::filesystem::absolute(flags.model_dir, error).lexically_normal().string();
  const auto started = session.node.call(
      {.method = "tenzro_moePrepareExperts",
       .params = {
           {"model_id", model}, {"layer", layer}, {"quant", flags.quant}, {"source", source}}});
  if (!started) return failure(started.error());
  const auto job = wait_for_job(session, text(*started, "job_id"));
  if (!job) return failure(job.error());
  const auto gate = session.node.call(
      {.method = "tenzro_moeGateLoad",
       .params = {
           {"model_id", model}, {"layer", layer}, {"uri", text(member(*job, "gate"), "uri")}}});
  if (!gate) return failure(gate.error());
  for (const Json& expert : list(*job, "experts")) {
    const auto row = session.node.call({.method = "tenzro_moeExpertLoad",
                                        .params = {{"model_id", model},
                                                   {"layer", layer},
                                                   {"expert", member(expert, "expert")},
                                                   {"uri", member(expert, "uri")}}});
    if (!row) return failure(row.error());
  }
  return list(*job, "experts").size();
}

double relative_l2(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = double{got[i]} - double{want[i]};
    difference += d * d;
    norm += double{want[i]} * double{want[i]};
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

std::optional<std::vector<float>> outputs_of(const Json& result, std::size_t count) {
  const Json& outputs = member(result, "outputs");
  if (!outputs.is_string()) return std::nullopt;
  const std::string& base64 = outputs.get_ref<const std::string&>();
  if (base64_decoded_size(base64) != count * sizeof(float)) return std::nullopt;
  std::vector<float> values(count);
  void* const raw = values.data();
  if (!base64_decode(base64, static_cast<std::uint8_t*>(raw))) return std::nullopt;
  return values;
}

/// Compares the routed slots with the traced ids, token by token, as sets.
void compare_routes(const Json& result, const TracedPass& pass, Measured& measured) {
  std::set<std::uint64_t> used;
  std::size_t token = 0;
  for (const Json& routed : list(result, "routed")) {
    std::set<std::uint64_t> ids;
    for (const Json& slot : list(routed, "slots")) {
      const auto expert = number(slot, "expert");
      if (!expert) continue;
      used.insert(*expert);
      ids.insert(*expert);
    }
    for (std::size_t k = 0; k < pass.top_k && token < pass.tokens; ++k) {
      const std::int32_t traced = pass.expert_ids[token * pass.top_k + k];
      if (traced < 0 || !ids.contains(static_cast<std::uint64_t>(traced)))
        measured.has_traced_ids = false;
    }
    ++token;
  }
  if (token != pass.tokens) measured.has_traced_ids = false;
  measured.experts_used = used.size();
}

Outcome<Measured> forward(Session& session, const std::string& model, const TracedPass& pass) {
  const auto bytes = as_u8(std::as_bytes(std::span(pass.input)));
  const Request request{.method = "tenzro_moeForward",
                        .params = {{"model_id", model},
                                   {"layer", pass.layer},
                                   {"d_model", pass.d_model},
                                   {"hidden_states", base64_encode(bytes)}}};
  const Clock::time_point begin = Clock::now();
  const auto result = session.node.call(request);
  if (!result) return failure(result.error());
  Measured measured;
  measured.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  const auto outputs = outputs_of(*result, pass.output.size());
  if (!outputs) return failure(ExitCode::refused, "the node's answer has no readable outputs");
  measured.relative_error = relative_l2(*outputs, pass.output);
  compare_routes(*result, pass, measured);
  return measured;
}

std::string fixed(double value, const char* format) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

Outcome<void> demo(Session& session, const DemoFlags& flags) {
  const std::filesystem::path folder(flags.model_dir);
  const std::string model = folder.filename().string();
  const auto passes = read_trace((folder / "trace_public.safetensors").string());
  if (!passes) return failure(passes.error());
  std::set<std::uint32_t> layers;
  for (const TracedPass& pass : *passes) layers.insert(pass.layer);
  for (const std::uint32_t layer : layers) {
    const auto experts = bring_up_layer(session, flags, model, layer);
    if (!experts) return failure(experts.error());
    session.out << model << " layer " << layer << ": " << *experts
                << " experts sliced, quantised to " << flags.quant
                << " and loaded by tenzro://blob/ URI\n";
  }
  Table table({"LAYER", "PROMPT", "TOKENS", "EXPERTS USED", "ROUTES", "RELATIVE ERROR", "MS"});
  double worst = 0;
  bool routes_agree = true;
  for (const TracedPass& pass : *passes) {
    const auto measured = forward(session, model, pass);
    if (!measured) return failure(measured.error());
    worst = std::max(worst, measured->relative_error);
    routes_agree = routes_agree && measured->has_traced_ids;
    table.add({std::to_string(pass.layer), pass.prompt, std::to_string(pass.tokens),
               std::to_string(measured->experts_used),
               measured->has_traced_ids ? "as traced" : "DIFFER",
               fixed(measured->relative_error, "%.2e"), fixed(measured->milliseconds, "%.2f")});
  }
  session.out << "\n" << table.render() << "\n";
  if (!routes_agree)
    return failure(ExitCode::refused, "FAILED: the node chose other experts than the trace");
  const double error_max = flags.error_max.value_or(flags.quant == "q8_0" ? 0.02 : 0.15);
  if (!(worst <= error_max)) {
    return failure(ExitCode::refused, "FAILED: the worst relative error " + fixed(worst, "%.2e") +
                                          " is above " + fixed(error_max, "%.2e"));
  }
  session.out << "PASSED: every token went to the traced experts; worst relative error "
              << fixed(worst, "%.2e") << ", at most " << fixed(error_max, "%.2e") << " allowed\n";
  return {};
}

}  // namespace

void add_demo_command(CLI::App& app, Selection& selection) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App& command = *app.add_subcommand(
      "demo",
      "prepare, load and forward a traced checkpoint on the node, and compare with its trace");
  command.add_option("--model-dir", flags->model_dir, "checkpoint with a trace_public.safetensors")
      ->required();
  command.add_option("--quant", flags->quant, "preset for the experts")->capture_default_str();
  command.add_option("--error-max", flags->error_max, "largest relative L2 error that passes")
      ->capture_default_str();
  command.callback([flags, &selection] {
    selection.command = Command{};
    selection.command->program = [flags](Session& session) { return demo(session, *flags); };
  });
}

}  // namespace tenzro::cli
