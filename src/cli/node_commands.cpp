#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "format.hpp"
#include "table.hpp"

namespace tenzro::cli {
namespace {

std::string shown(const Json& object, std::string_view name, std::string (*show)(std::uint64_t)) {
  const std::optional<std::uint64_t> value = number(object, name);
  return value ? show(*value) : "-";
}

std::string show_status(const Json& status) {
  Facts facts;
  facts.add("name", text(status, "name"));
  facts.add("version", text(status, "version"));
  facts.add("endpoint id", text(status, "endpoint_id"));
  facts.add("provider", text(status, "provider"));
  facts.add("rpc", text(status, "rpc_address"));
  facts.add("quic", text(status, "quic_address"));
  facts.add("up for", shown(status, "uptime_s", uptime_text));
  facts.add("peers", text(status, "peers"));
  facts.add("holds", text(status, "experts") + " experts, " + text(status, "gates") + " gates");
  facts.add("memory", shown(status, "memory_bytes", bytes_text) + " of " +
                          shown(status, "memory_budget_bytes", bytes_text));
  facts.add("tiers", text(status, "memory_experts") + " experts in memory, " +
                         hit_rate_text(number(status, "memory_hits").value_or(0),
                                       number(status, "memory_misses").value_or(0)) +
                         ", " + text(status, "promoted_to_memory") + " promoted, " +
                         text(status, "evicted_to_disk") + " evicted");
  facts.add("serves", text(status, "measured_tps") + " tokens/s, " +
                          shown(status, "row_time_ns", nanoseconds_text) + " a row, " +
                          text(status, "expert_jobs") + " jobs under way");
  facts.add("queue", text(status, "queue_depth") + " of " + text(status, "queue_max"));
  facts.add("compute", text(status, "compute_backend") + ", " + text(status, "threads") +
                           " threads, profile " + text(status, "profile"));
  facts.add("forwards", text(status, "forwards") + ", p50 " +
                            shown(status, "forward_p50_us", microseconds_text) + ", p99 " +
                            shown(status, "forward_p99_us", microseconds_text));
  facts.add("draining", text(status, "draining"));
  return facts.render();
}

/// A provider's own member, or the one in its capacity: announcements nest it, records may not.
const Json& capacity_member(const Json& provider, std::string_view name) {
  const Json& direct = member(provider, name);
  return direct.is_null() ? member(member(provider, "capacity"), name) : direct;
}

std::string roles_text(const Json& roles) {
  std::string out;
  if (!roles.is_array()) return "-";
  for (const Json& role : roles) {
    if (!out.empty()) out += ",";
    out += text(role);
  }
  return out.empty() ? "-" : out;
}

std::string first_of(const Json& provider, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (!member(provider, name).is_null()) return text(provider, name);
  }
  return "-";
}

/// The largest rate among what the provider says: its own, or that of its holdings.
std::string rate_text(const Json& provider) {
  const Json& own = capacity_member(provider, "committed_tps");
  if (own.is_number()) return text(own);
  const Json& holdings = capacity_member(provider, "moe_holdings");
  return holdings.is_array() && !holdings.empty() ? text(holdings.front(), "committed_tps") : "-";
}

/// alive, suspect, draining; and quarantined beside any of them.
std::string health_text(const Json& provider) {
  std::string health = text(provider, "status");
  if (health == "active") health = "alive";
  const Json& draining = member(provider, "draining");
  if (draining.is_boolean() && draining.get<bool>() && health != "draining") health += ",draining";
  const Json& quarantine = member(provider, "quarantined_until_ms");
  if (quarantine.is_number() && quarantine.get<double>() > 0) health += ",quarantined";
  return health;
}

std::string address_text(const Json& provider) {
  const Json& addresses = member(provider, "addresses");
  if (addresses.is_array() && !addresses.empty()) return text(addresses.front());
  return first_of(provider, {"rpc_endpoint", "endpoint_url", "http_endpoint"});
}

std::string show_providers(const Json& result) {
  const Json& providers = result.is_array() ? result : list(result, "providers");
  Table table({"PROVIDER", "NAME", "ROLES", "EXPERTS", "TPS", "HEALTH", "REPUTATION", "ADDRESS"});
  for (const Json& provider : providers) {
    const Json& holdings = capacity_member(provider, "moe_holdings");
    table.add({short_id(first_of(provider, {"provider_address", "address", "provider"})),
               first_of(provider, {"name"}), roles_text(capacity_member(provider, "moe_roles")),
               holdings.is_array() ? std::to_string(holdings.size()) : "-", rate_text(provider),
               health_text(provider), text(provider, "reputation"), address_text(provider)});
  }
  return table.empty() ? "no providers known\n" : table.render();
}

}  // namespace

void add_node_commands(CLI::App& app, Selection& selection) {
  app.add_subcommand("status", "the node itself")->callback([&selection] {
    selection.command = call_of("tenzro_nodeStatus", Json::object(), show_status);
  });
  app.add_subcommand("providers", "providers this node knows")->callback([&selection] {
    selection.command = call_of("tenzro_listProviders", Json::object(), show_providers);
  });
  app.add_subcommand("drain", "let the node finish its work and take no more")
      ->callback([&selection] {
        selection.command = call_of("tenzro_nodeDrain", Json::object(), [](const Json&) {
          return std::string("the node takes no new work\n");
        });
      });
}

}  // namespace tenzro::cli
