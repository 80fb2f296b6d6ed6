#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "number_list.hpp"
#include "table.hpp"
#include "tensor_file.hpp"

namespace tenzro::cli {
namespace {

/// Rows of a routing table before the rest is only counted.
constexpr std::size_t kShownTokensMax = 64;

struct RunFlags {
  std::string model;
  std::uint32_t layer = 0;
  std::uint32_t expert = 0;
  std::uint32_t d_model = 0;
  std::string hidden_file;
  std::string router_hidden_file;
  std::string out_file;
  std::optional<std::uint32_t> top_k;
  std::vector<std::int64_t> token_ids;
  std::vector<std::uint32_t> token_indices;
  bool allow_cold = false;
  bool has_allow_cold = false;  ///< said, whichever way
  bool allow_partial = false;
  std::string carrier;
  std::string profile;
};

using Flags = std::shared_ptr<RunFlags>;

void add_common_flags(CLI::App& command, RunFlags& flags) {
  command.add_option("--model-id", flags.model, "model")->required();
  command.add_option("--layer", flags.layer, "layer")->required();
  command.add_option("--d-model", flags.d_model, "width of a row")
      ->required()
      ->check(CLI::Range(1U, UINT32_MAX));
  command
      .add_option("--hidden-file,--hidden", flags.hidden_file,
                  "hidden states: rows of f32, little-endian")
      ->required();
}

void add_gate_flags(CLI::App& command, RunFlags& flags) {
  command.add_option("--top-k", flags.top_k, "experts per token (default: the gate's own)");
  add_number_list(command, "--token-ids", flags.token_ids,
                  "token ids, for layers that route by them");
  command.add_option("--router-hidden-file", flags.router_hidden_file,
                     "what the router reads, where that is not what the experts read");
}

void add_profile_flag(CLI::App& command, RunFlags& flags) {
  command.add_option("--profile", flags.profile, "numeric profile (default: the node's)")
      ->check(CLI::IsMember({"exact", "fast"}));
}

void add_out_flag(CLI::App& command, RunFlags& flags) {
  command.add_option("--out-file", flags.out_file, "file for the outputs: rows of f32");
}

/// The parameters that all three methods share, and the number of rows.
Outcome<std::uint64_t> fill_common(const RunFlags& flags, Json& params) {
  params["model_id"] = flags.model;
  params["layer"] = flags.layer;
  params["d_model"] = flags.d_model;
  Outcome<TensorText> hidden = read_tensor(flags.hidden_file, flags.d_model);
  if (!hidden) return failure(hidden.error());
  params["hidden_states"] = std::move(hidden->base64);
  if (!flags.profile.empty()) params["profile"] = flags.profile;
  return hidden->rows;
}

Outcome<Request> route_request(const RunFlags& flags) {
  Request request{.method = "tenzro_moeRoute", .params = Json::object()};
  const Outcome<std::uint64_t> rows = fill_common(flags, request.params);
  if (!rows) return failure(rows.error());
  if (flags.top_k) request.params["top_k"] = *flags.top_k;
  if (!flags.token_ids.empty()) request.params["token_ids"] = flags.token_ids;
  if (!flags.router_hidden_file.empty()) {
    Outcome<TensorText> router = read_tensor(flags.router_hidden_file, flags.d_model);
    if (!router) return failure(router.error());
    request.params["router_hidden_states"] = std::move(router->base64);
  }
  return request;
}

Outcome<Request> forward_request(const RunFlags& flags) {
  Outcome<Request> request = route_request(flags);
  if (!request) return request;
  request->method = "tenzro_moeForward";
  if (flags.has_allow_cold) request->params["allow_cold"] = flags.allow_cold;
  if (flags.allow_partial) request->params["allow_partial"] = true;
  if (!flags.carrier.empty()) request->params["carrier"] = flags.carrier;
  return request;
}

Outcome<Request> execute_request(const RunFlags& flags) {
  Request request{.method = "tenzro_moeExecute", .params = Json::object()};
  const Outcome<std::uint64_t> rows = fill_common(flags, request.params);
  if (!rows) return failure(rows.error());
  std::vector<std::uint32_t> indices = flags.token_indices;
  if (indices.empty()) {
    indices.resize(static_cast<std::size_t>(*rows));
    std::iota(indices.begin(), indices.end(), 0U);
  }
  request.params["expert"] = flags.expert;
  request.params["token_indices"] = std::move(indices);
  return request;
}

std::string routed_table(const Json& routed) {
  Table table({"TOKEN", "EXPERTS (WEIGHT)"});
  std::size_t shown = 0;
  for (const Json& token : routed) {
    if (shown++ == kShownTokensMax) break;
    std::string slots;
    for (const Json& slot : list(token, "slots")) {
      if (!slots.empty()) slots += "  ";
      slots += text(slot, "expert") + " (" + text(slot, "weight") + ")";
    }
    table.add({text(token, "token_index"), slots});
  }
  std::string out = table.render();
  if (routed.size() > kShownTokensMax) {
    out += "and " + std::to_string(routed.size() - kShownTokensMax) + " more tokens (--json)\n";
  }
  return out;
}

std::string show_route(const Json& result) {
  return text(result, "tokens") + " tokens, top " + text(result, "top_k") + "\n\n" +
         routed_table(list(result, "routed"));
}

std::string outputs_text(const Json& result, const RunFlags& flags, const std::string& rows) {
  if (!member(result, "outputs").is_string()) return "none";
  return rows + " rows of " + text(result, "d_model") +
         (flags.out_file.empty() ? " (--out-file keeps them)" : " in " + flags.out_file);
}

std::string show_execute(const Json& result, const RunFlags& flags) {
  Facts facts;
  facts.add("expert", "l" + text(result, "layer") + "/e" + text(result, "expert"));
  facts.add("outputs",
            outputs_text(result, flags, std::to_string(list(result, "token_indices").size())));
  facts.add("receipt", member(result, "receipt").is_object() ? "yes" : "no");
  return facts.render();
}

std::string show_forward(const Json& result, const RunFlags& flags) {
  const Json& transports = member(result, "transports");
  Facts facts;
  facts.add("outputs", outputs_text(result, flags, text(result, "tokens")));
  facts.add("top-k", text(result, "top_k"));
  facts.add("batches", text(result, "batches") + " (" + text(transports, "local") + " local, " +
                           text(transports, "iroh") + " iroh, " + text(transports, "http") +
                           " http)");
  facts.add("replans", text(result, "replans"));
  facts.add("carrier", text(result, "carrier"));
  facts.add("profile", text(result, "profile"));
  std::string missing;
  for (const Json& expert : list(result, "missing")) {
    if (!missing.empty()) missing += ", ";
    missing += "l" + text(expert, "layer") + "/e" + text(expert, "expert") + " for " +
               std::to_string(list(expert, "tokens").size()) + " tokens";
  }
  facts.add("missing", missing.empty() ? "none" : missing);
  return facts.render() + "\n" + routed_table(list(result, "routed"));
}

using RequestMaker = Outcome<Request> (*)(const RunFlags&);
using Shower = std::string (*)(const Json&, const RunFlags&);

Command run_command(const Flags& flags, RequestMaker maker, Shower shower) {
  Command command;
  command.make_request = [flags, maker](Node&) { return maker(*flags); };
  command.show = [flags, shower](const Json& result) { return shower(result, *flags); };
  if (!flags->out_file.empty()) {
    command.keep = [flags](const Json& result) { return keep_outputs(result, flags->out_file); };
  }
  return command;
}

void add_route(CLI::App& moe, Selection& selection) {
  Flags flags = std::make_shared<RunFlags>();
  CLI::App& command = *moe.add_subcommand("route", "run a layer's gate over hidden states");
  add_common_flags(command, *flags);
  add_gate_flags(command, *flags);
  command.callback([flags, &selection] {
    selection.command = run_command(flags, route_request, [](const Json& result, const RunFlags&) {
      return show_route(result);
    });
  });
}

void add_execute(CLI::App& moe, Selection& selection) {
  Flags flags = std::make_shared<RunFlags>();
  CLI::App& command = *moe.add_subcommand("execute", "run one expert of this node");
  add_common_flags(command, *flags);
  command.add_option("--expert", flags->expert, "expert of the layer")->required();
  add_number_list(command, "--token-indices", flags->token_indices,
                  "a row's token (default: 0, 1, ...)");
  add_profile_flag(command, *flags);
  add_out_flag(command, *flags);
  command.callback([flags, &selection] {
    selection.command = run_command(flags, execute_request, show_execute);
  });
}

void add_forward(CLI::App& moe, Selection& selection) {
  Flags flags = std::make_shared<RunFlags>();
  CLI::App& command = *moe.add_subcommand("forward", "run a whole layer over the mesh");
  add_common_flags(command, *flags);
  add_gate_flags(command, *flags);
  const CLI::Option* const allow_cold = command.add_flag(
      "--allow-cold", flags->allow_cold,
      "use holders that keep an expert on disk (default: where no warm one is; =false: never)");
  command.add_flag("--allow-partial", flags->allow_partial,
                   "go on without experts that nobody answers for");
  command.add_option("--carrier", flags->carrier, "how rows travel (default: the node's choice)")
      ->check(CLI::IsMember({"auto", "dense", "q8"}));
  add_profile_flag(command, *flags);
  add_out_flag(command, *flags);
  command.callback([flags, allow_cold, &selection] {
    flags->has_allow_cold = allow_cold->count() > 0;  // the option ends with the command line
    selection.command = run_command(flags, forward_request, show_forward);
  });
}

}  // namespace

void add_forward_commands(CLI::App& moe, Selection& selection) {
  add_route(moe, selection);
  add_execute(moe, selection);
  add_forward(moe, selection);
}

}  // namespace tenzro::cli
