#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "format.hpp"
#include "number_list.hpp"
#include "prepare_request.hpp"
#include "table.hpp"

namespace tenzro::cli {
namespace {

constexpr std::chrono::milliseconds kPollInterval{500};
constexpr std::size_t kBarWidth = 24;

/// "layer 3", or "3 layers".
std::string layers_text(const Json& job) {
  const Json& layer = member(job, "layer");
  return layer.is_array() ? std::to_string(layer.size()) + " layers"
                          : "layer " + text(job, "layer");
}

std::string show_started(const Json& result) {
  if (text(result, "state") == "waiting") {
    return "job " + text(result, "job_id") + ": waits for what the checkpoint of " +
           text(result, "model_id") + " says of itself\n";
  }
  return "job " + text(result, "job_id") + ": " + text(result, "total_experts") + " experts of " +
         text(result, "model_id") + " " + layers_text(result) + "\n";
}

std::string progress_text(const Json& job) {
  return text(job, "completed_experts") + " of " + text(job, "total_experts") + " experts";
}

std::string bar_of(const Json& job) {
  const std::uint64_t total = number(job, "total_experts").value_or(0);
  const std::uint64_t done = std::min(total, number(job, "completed_experts").value_or(0));
  const auto full = total == 0 ? 0 : static_cast<std::size_t>(done * kBarWidth / total);
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "] ";
}

/// One line: how far the job is, how much it has read, and how long it will take.
std::string progress_line(const Json& job) {
  std::string line = bar_of(job) + progress_text(job);
  const Json& progress = member(job, "progress");
  const std::uint64_t wanted = number(progress, "bytes_wanted").value_or(0);
  if (wanted > 0) {
    line += ", " + bytes_text(number(progress, "bytes_read").value_or(0)) + " of " +
            bytes_text(wanted) + " read";
  }
  if (member(progress, "waiting").is_string()) {
    line += ", " + text(progress, "waiting") + " (" +
            uptime_text(number(progress, "waiting_ms").value_or(0) / 1000 + 1) + ")";
  } else if (const auto left = number(progress, "left_ms");
             left && text(job, "state") == "running") {
    line += ", about " + uptime_text(*left / 1000 + 1) + " left";
  }
  return line;
}

std::string blob_size(const Json& blob) {
  const std::optional<std::uint64_t> bytes = number(blob, "bytes");
  return bytes ? bytes_text(*bytes) : "-";
}

std::string show_job(const Json& job) {
  Facts facts;
  facts.add("model", text(job, "model_id") + " " + layers_text(job));
  if (member(job, "source").is_string()) facts.add("source", text(job, "source"));
  facts.add("state", text(job, "state"));
  facts.add("done", progress_text(job));
  if (member(job, "error").is_string()) facts.add("error", text(job, "error"));
  Table table({"LAYER", "EXPERT", "QUANT", "SIZE", "URI"});
  for (const Json& expert : list(job, "experts")) {
    table.add({text(expert, "layer"), text(expert, "expert"), text(expert, "quant"),
               blob_size(expert), text(expert, "uri")});
  }
  const Json& gate = member(job, "gate");
  if (gate.is_object())
    table.add({text(job, "layer"), "gate", "-", blob_size(gate), text(gate, "uri")});
  for (const Json& each : list(job, "gates"))
    table.add({text(each, "layer"), "gate", "-", blob_size(each), text(each, "uri")});
  return facts.render() + (table.empty() ? "" : "\n" + table.render());
}

std::string show_jobs(const Json& result) {
  Table table({"JOB", "MODEL", "LAYER", "STATE", "DONE", "ERROR"});
  for (const Json& job : list(result, "jobs")) {
    const std::string layers =
        member(job, "layer").is_array() ? layers_text(job) : text(job, "layer");
    table.add({text(job, "job_id"), text(job, "model_id"), layers, text(job, "state"),
               progress_text(job), text(job, "error")});
  }
  return table.empty() ? "no jobs\n" : table.render();
}

Request status_request(const std::string& job_id) {
  return {.method = "tenzro_moePrepareStatus", .params = {{"job_id", job_id}}};
}

/// Without the blobs, of which there may be thousands.
Request summary_request(const std::string& job_id) {
  Request request = status_request(job_id);
  request.params["summary"] = true;
  return request;
}

/// What follow shows at the end: the blobs too.
Outcome<void> show_ended(Session& session, const std::string& job_id) {
  const Outcome<Json> job = session.node.call(status_request(job_id));
  if (!job) return failure(job.error());
  session.out << (session.settings.json ? dump(*job) + "\n" : show_job(*job));
  if (text(*job, "state") == "completed") return {};
  return failure(ExitCode::refused, "the job " + text(*job, "state") + ": " + text(*job, "error"));
}

/// Polls until the job has ended; its progress goes to `err` in one line that renews itself.
Outcome<void> follow(Session& session, const std::string& job_id) {
  std::string shown;
  while (true) {
    const Outcome<Json> job = session.node.call(summary_request(job_id));
    const std::string state = job ? text(*job, "state") : "";
    const bool is_over = state != "running" && state != "waiting";
    const std::string progress = job ? progress_line(*job) : "";
    if (job && progress != shown) {
      // Blanks over what a longer line has left.
      const std::size_t left_over = shown.size() - std::min(shown.size(), progress.size());
      session.err << "\r" << progress << std::string(left_over, ' ') << std::flush;
      shown = progress;
    }
    if (is_over && !shown.empty()) session.err << "\n";
    if (!job) return failure(job.error());
    if (is_over) return show_ended(session, job_id);
    if (!session.wait(kPollInterval)) {
      session.err << "\n";
      return failure(ExitCode::interrupted,
                     "the job goes on: tenzro moe prepare-status --job-id " + printable(job_id));
    }
  }
}

Outcome<void> start_and_follow(Session& session, const PrepareFlags& flags) {
  const Outcome<Request> request = prepare_request(flags);
  if (!request) return failure(request.error());
  const Outcome<Json> started = session.node.call(*request);
  if (!started) return failure(started.error());
  const Json& job_id = member(*started, "job_id");
  if (!job_id.is_string()) return failure(ExitCode::refused, "the node's answer names no job");
  session.err << show_started(*started);
  return follow(session, job_id.get<std::string>());
}

Command command_of(const std::shared_ptr<PrepareFlags>& flags) {
  Command prepare;
  if (flags->follow) {
    prepare.program = [flags](Session& session) { return start_and_follow(session, *flags); };
    return prepare;
  }
  prepare.make_request = [flags](Node&) { return prepare_request(*flags); };
  prepare.show = show_started;
  return prepare;
}

void add_prepare_experts(CLI::App& moe, Selection& selection) {
  auto flags = std::make_shared<PrepareFlags>();
  CLI::App& command =
      *moe.add_subcommand("prepare-experts", "slice and quantise the experts of a checkpoint");
  command.add_option("--model-id", flags->model, "model")->required();
  command.add_option("--layer", flags->layer, "layer, several like 0,3, or all")
      ->required()
      ->type_name("N,N,...|all");
  add_number_list(command, "--experts", flags->experts, "experts, like 0,3 (default: all)");
  command.add_flag("--no-gate", flags->no_gate, "leave the layer's gate out");
  CLI::Option& quant = *command.add_option("--quant", flags->quant, "q4_k_m, q8_0, q4_k or q6_k");
  command.add_option("--quant-json", flags->quant_json, R"(like {"up":"q4_k","down":"q6_k"})")
      ->excludes(&quant);
  command.add_option("--dense", flags->dense, "f32: what FP8 and int4 sources become")
      ->check(CLI::IsMember({"f32"}));
  command.add_flag("--strict", flags->strict, "refuse what cannot be quantised as asked");
  command.add_option("--imatrix", flags->imatrix,
                     "GGUF imatrix file in the source's folder, by which columns are weighed");
  command.add_option("--source", flags->source,
                     "directory, .safetensors or .gguf file, file:// of these, or https:// base");
  command.add_flag("--load", flags->load, "also load what is published");
  command.add_flag("--follow", flags->follow, "wait for the job and show its progress");
  command.callback([flags, &selection] { selection.command = command_of(flags); });
}

void add_prepare_status(CLI::App& moe, Selection& selection) {
  auto job_id = std::make_shared<std::string>();
  auto is_followed = std::make_shared<bool>(false);
  CLI::App& command = *moe.add_subcommand("prepare-status", "how far a job is");
  command.add_option("--job-id", *job_id, "job")->required();
  command.add_flag("--follow", *is_followed, "wait for the job and show its progress");
  command.callback([job_id, is_followed, &selection] {
    Request request = status_request(*job_id);
    selection.command = call_of(request.method, request.params, show_job);
    if (!*is_followed) return;
    selection.command = Command{};
    selection.command->program = [job_id](Session& session) { return follow(session, *job_id); };
  });
}

/// Goes on with a job, and follows it where that is wanted.
void add_prepare_resume(CLI::App& moe, Selection& selection) {
  auto job_id = std::make_shared<std::string>();
  auto is_followed = std::make_shared<bool>(false);
  CLI::App& command =
      *moe.add_subcommand("prepare-resume", "go on with a job that failed or was cancelled");
  command.add_option("--job-id", *job_id, "job")->required();
  command.add_flag("--follow", *is_followed, "wait for the job and show its progress");
  command.callback([job_id, is_followed, &selection] {
    const Request request{.method = "tenzro_moePrepareResume", .params = {{"job_id", *job_id}}};
    selection.command = call_of(request.method, request.params, show_started);
    if (!*is_followed) return;
    selection.command = Command{};
    selection.command->program = [job_id, request](Session& session) -> Outcome<void> {
      const Outcome<Json> resumed = session.node.call(request);
      if (!resumed) return failure(resumed.error());
      return follow(session, *job_id);
    };
  });
}

}  // namespace

void add_prepare_commands(CLI::App& moe, Selection& selection) {
  add_prepare_experts(moe, selection);
  add_prepare_status(moe, selection);
  add_prepare_resume(moe, selection);
  moe.add_subcommand("prepare-list", "the node's jobs")->callback([&selection] {
    selection.command = call_of("tenzro_moePrepareList", Json::object(), show_jobs);
  });
  auto job_id = std::make_shared<std::string>();
  CLI::App& cancel = *moe.add_subcommand("prepare-cancel", "end a job");
  cancel.add_option("--job-id", *job_id, "job")->required();
  cancel.callback([job_id, &selection] {
    selection.command =
        call_of("tenzro_moePrepareCancel", {{"job_id", *job_id}}, [](const Json& result) {
          return is_true(result, "cancelled") ? "cancelled\n" : "was over already\n";
        });
  });
}

}  // namespace tenzro::cli
