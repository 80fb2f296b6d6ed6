#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/bytes.hpp"

#include "commands.hpp"
#include "files.hpp"
#include "format.hpp"
#include "table.hpp"

namespace tenzro::cli {
namespace {

/// From here on a file is uploaded first and loaded by its URI: base64 in JSON would pass the
/// node's body limit.
constexpr std::uint64_t kInlineBytesMax = 32ULL << 20U;

struct WeightFlags {
  std::string model;
  std::uint32_t layer = 0;
  std::optional<std::uint32_t> expert;
  std::string file;
  std::string uri;
};

using Flags = std::shared_ptr<WeightFlags>;

Json key_of(const WeightFlags& flags) {
  Json key = {{"model_id", flags.model}, {"layer", flags.layer}};
  if (flags.expert) key["expert"] = *flags.expert;
  return key;
}

Outcome<Request> load_request(const WeightFlags& flags, Node& node) {
  Request request{.method = flags.expert ? "tenzro_moeExpertLoad" : "tenzro_moeGateLoad",
                  .params = key_of(flags)};
  if (!flags.uri.empty()) {
    request.params["uri"] = flags.uri;
    return request;
  }
  const Outcome<std::uint64_t> size = file_size(flags.file);
  if (!size) return failure(size.error());
  if (*size == 0) return failure(ExitCode::usage, flags.file + ": is empty");
  if (*size >= kInlineBytesMax) {
    Outcome<std::string> uri = node.upload(flags.file);
    if (!uri) return failure(uri.error());
    request.params["uri"] = std::move(*uri);
    return request;
  }
  const Outcome<std::string> bytes = read_file(flags.file, kInlineBytesMax);
  if (!bytes) return failure(bytes.error());
  request.params["blob_base64"] = base64_encode(as_u8(*bytes));
  return request;
}

std::string projection_text(const Json& weights, std::string_view name) {
  const Json& projection = member(weights, name);
  return projection.is_object() ? text(projection, "type") : "-";
}

std::string size_text(const Json& object, std::string_view name) {
  const std::optional<std::uint64_t> bytes = number(object, name);
  return bytes ? bytes_text(*bytes) : "-";
}

Table expert_table() {
  return Table({"MODEL", "LAYER", "EXPERT", "D_MODEL", "D_FF", "TIER", "GATE", "UP", "DOWN", "SIZE",
                "SOURCE"});
}

void add_row(Table& table, const Json& expert) {
  const Json& weights = member(expert, "weights");
  table.add({text(expert, "model_id"), text(expert, "layer"), text(expert, "expert"),
             text(expert, "d_model"), text(expert, "d_ff"), text(expert, "tier"),
             projection_text(weights, "gate"), projection_text(weights, "up"),
             projection_text(weights, "down"), size_text(expert, "approx_bytes"),
             text(expert, "source_uri")});
}

Table gate_table() {
  return Table({"MODEL", "LAYER", "EXPERTS", "D_MODEL", "SIZE"});
}

void add_gate_row(Table& table, const Json& gate) {
  table.add({text(gate, "model_id"), text(gate, "layer"), text(gate, "num_experts"),
             text(gate, "d_model"), size_text(gate, "approx_bytes")});
}

std::string show_loaded_expert(const Json& result) {
  Table table = expert_table();
  add_row(table, result);
  return table.render();
}

std::string show_loaded_gate(const Json& result) {
  Table table = gate_table();
  add_gate_row(table, result);
  return table.render();
}

std::string show_unload(const Json& result) {
  return is_true(result, "removed") ? "removed\n" : "was not there\n";
}

std::string show_status(const Json& result) {
  Facts facts;
  facts.add("backend", text(result, "compute_backend"));
  facts.add("memory", size_text(result, "memory_bytes") + " of " +
                          size_text(result, "memory_budget_bytes") + " in " +
                          text(result, "memory_experts") + " experts");
  facts.add("disk", text(result, "disk_experts") + " experts");
  facts.add("evicted", text(result, "evicted_to_disk") + " to disk, " +
                           text(result, "evicted_dropped") + " dropped");
  facts.add("asked for", hit_rate_text(number(result, "memory_hits").value_or(0),
                                       number(result, "memory_misses").value_or(0)) +
                             ", " + text(result, "promoted_to_memory") + " promoted");
  facts.add("tokens/s", text(result, "measured_tps"));
  std::string out = facts.render();
  Table experts = expert_table();
  for (const Json& expert : list(result, "experts")) add_row(experts, expert);
  if (!experts.empty()) out += "\n" + experts.render();
  Table gates = gate_table();
  for (const Json& gate : list(result, "gates")) add_gate_row(gates, gate);
  if (!gates.empty()) out += "\n" + gates.render();
  return out;
}

void add_key_flags(CLI::App& command, const Flags& flags) {
  command.add_option("--model-id", flags->model, "model")->required();
  command.add_option("--layer", flags->layer, "layer")->required();
}

void add_expert_flag(CLI::App& command, const Flags& flags) {
  command.add_option("--expert", flags->expert, "expert of the layer")->required();
}

void add_load(CLI::App& command, const Flags& flags, Selection& selection) {
  CLI::Option_group& source = *command.add_option_group("source", "where the weights come from");
  source.add_option("--file", flags->file, "safetensors file");
  source.add_option("--uri", flags->uri, "tenzro:// URI of a blob");
  source.require_option(1);
  command.callback([flags, &selection] {
    Command load;
    load.make_request = [flags](Node& node) { return load_request(*flags, node); };
    load.show = flags->expert ? show_loaded_expert : show_loaded_gate;
    selection.command = std::move(load);
  });
}

void add_unload(CLI::App& command, const Flags& flags, Selection& selection) {
  command.callback([flags, &selection] {
    const char* const method = flags->expert ? "tenzro_moeExpertUnload" : "tenzro_moeGateUnload";
    selection.command = call_of(method, key_of(*flags), show_unload);
  });
}

}  // namespace

void add_expert_commands(CLI::App& moe, Selection& selection) {
  const auto new_command = [&moe](const char* name, const char* help, const Flags& flags) {
    CLI::App* const command = moe.add_subcommand(name, help);
    add_key_flags(*command, flags);
    return command;
  };
  Flags flags = std::make_shared<WeightFlags>();
  CLI::App* command = new_command("load-expert", "load one expert's weights", flags);
  add_expert_flag(*command, flags);
  add_load(*command, flags, selection);

  flags = std::make_shared<WeightFlags>();
  command = new_command("load-gate", "load a layer's gate", flags);
  add_load(*command, flags, selection);

  flags = std::make_shared<WeightFlags>();
  command = new_command("unload-expert", "forget one expert", flags);
  add_expert_flag(*command, flags);
  add_unload(*command, flags, selection);

  flags = std::make_shared<WeightFlags>();
  command = new_command("unload-gate", "forget a layer's gate", flags);
  add_unload(*command, flags, selection);

  moe.add_subcommand("status", "what this node holds")->callback([&selection] {
    selection.command = call_of("tenzro_moeExpertStatus", Json::object(), show_status);
  });
}

}  // namespace tenzro::cli
