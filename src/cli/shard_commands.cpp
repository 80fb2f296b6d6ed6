#include <memory>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "files.hpp"
#include "format.hpp"
#include "table.hpp"

namespace tenzro::cli {
namespace {

constexpr std::uint64_t kRoutingsBytesMax = 32ULL << 20U;

std::string slots_text(const Json& slots) {
  if (slots.empty()) return "none";
  std::string out;
  for (const Json& slot : slots) {
    if (!out.empty()) out += ", ";
    out += "l" + text(slot, "layer") + "/e" + text(slot, "expert");
  }
  return out;
}

std::string policy_text(const Json& policy) {
  return "at least " + text(policy, "min_replication") + " holders, at most " +
         text(policy, "max_replication") + ", hot from " + text(policy, "hot_threshold_tps") +
         " tokens/s";
}

std::string show_shard_map(const Json& result) {
  Facts facts;
  facts.add("model", text(result, "model_id"));
  facts.add("covered experts", text(result, "covered_experts"));
  facts.add("distinct providers", text(result, "distinct_providers"));
  facts.add("policy", policy_text(member(result, "policy")));
  facts.add("under-replicated", slots_text(list(result, "under_replicated_experts")));
  facts.add("hot", slots_text(list(result, "hot_experts")));
  Table table(
      {"LAYER", "EXPERT", "COPIES", "PROVIDER", "RESIDENCY", "TPS", "ENDPOINT", "HTTP", "BLOB"});
  for (const Json& held : list(result, "holders")) {
    for (const Json& holder : list(held, "holders")) {
      table.add({text(held, "layer"), text(held, "expert"), text(held, "replication"),
                 short_id(text(holder, "provider")), text(holder, "residency"),
                 text(holder, "committed_tps"), short_id(text(holder, "iroh_endpoint_id")),
                 text(holder, "http_endpoint"),
                 member(holder, "blob_uri").is_string() ? "yes" : "no"});
    }
  }
  return facts.render() + (table.empty() ? "" : "\n" + table.render());
}

std::string show_plan(const Json& result) {
  Table table({"LAYER", "EXPERT", "PROVIDER", "TOKENS", "ENDPOINT", "HTTP"});
  for (const Json& batch : list(result, "batches")) {
    table.add({text(batch, "layer"), text(batch, "expert"), short_id(text(batch, "provider")),
               std::to_string(list(batch, "token_indices").size()),
               short_id(text(batch, "iroh_endpoint_id")), text(batch, "http_endpoint")});
  }
  return text(result, "batch_count") + " batches for " +
         std::to_string(list(result, "token_assignments").size()) + " tokens\n\n" + table.render();
}

std::string show_shape(const Json& result) {
  const Json& moe = member(result, "moe");
  Facts facts;
  facts.add("model", text(result, "model_id"));
  facts.add("architecture", text(result, "architecture"));
  facts.add("mixture of experts", text(result, "is_moe"));
  if (moe.is_object()) {
    facts.add("experts", text(moe, "num_experts"));
    facts.add("experts per token", text(moe, "experts_per_token"));
    facts.add("shared experts", text(moe, "shared_experts"));
  }
  return facts.render();
}

void add_shard_map(CLI::App& moe, Selection& selection) {
  auto model = std::make_shared<std::string>();
  CLI::App& command = *moe.add_subcommand("shard-map", "who holds which expert of a model");
  command.add_option("--model-id", *model, "model")->required();
  command.callback([model, &selection] {
    selection.command = call_of("tenzro_moeShardMap", {{"model_id", *model}}, show_shard_map);
  });
}

struct PlanFlags {
  std::string model;
  std::string routings_file;
  bool allow_cold = false;
};

Outcome<Request> plan_request(const PlanFlags& flags, bool has_allow_cold) {
  const Outcome<std::string> file = read_file(flags.routings_file, kRoutingsBytesMax);
  if (!file) return failure(file.error());
  Json routings = Json::parse(*file, nullptr, false);
  if (!routings.is_array()) {
    return failure(
        ExitCode::usage,
        flags.routings_file + ": not a JSON array of {token_index, experts: [{layer, expert}]}");
  }
  Request request{.method = "tenzro_moePlanDispatch", .params = {{"model_id", flags.model}}};
  request.params["routings"] = std::move(routings);
  if (has_allow_cold) request.params["allow_cold"] = flags.allow_cold;
  return request;
}

void add_plan_dispatch(CLI::App& moe, Selection& selection) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App& command = *moe.add_subcommand("plan-dispatch", "which holder would serve which token");
  command.add_option("--model-id", flags->model, "model")->required();
  command
      .add_option("--routings-json,--routing", flags->routings_file,
                  "file with a JSON array of {token_index, experts: [{layer, expert}]}")
      ->required();
  const CLI::Option* const allow_cold = command.add_flag(
      "--allow-cold", flags->allow_cold,
      "use holders that keep the expert on disk (default: where no warm one is; =false: never)");
  command.callback([flags, allow_cold, &selection] {
    Command plan;
    plan.make_request = [flags, has_allow_cold = allow_cold->count() > 0](Node&) {
      return plan_request(*flags, has_allow_cold);
    };
    plan.show = show_plan;
    selection.command = std::move(plan);
  });
}

}  // namespace

void add_shard_commands(CLI::App& moe, Selection& selection) {
  add_shard_map(moe, selection);
  add_plan_dispatch(moe, selection);
  moe.add_subcommand("replication-policy", "how many holders an expert should have")
      ->callback([&selection] {
        selection.command = call_of("tenzro_moeReplicationPolicy", Json::object(),
                                    [](const Json& result) { return policy_text(result) + "\n"; });
      });
  auto model = std::make_shared<std::string>();
  CLI::App& shape = *moe.add_subcommand("catalog-shape", "what the catalogue says of a model");
  shape.add_option("--model-id", *model, "model")->required();
  shape.callback([model, &selection] {
    selection.command = call_of("tenzro_moeCatalogShape", {{"model_id", *model}}, show_shape);
  });
}

}  // namespace tenzro::cli
