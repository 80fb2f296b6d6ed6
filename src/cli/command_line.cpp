#include "command_line.hpp"

#include <algorithm>
#include <sstream>

#include <CLI/CLI.hpp>

#include "commands.hpp"

namespace tenzro::cli {
namespace {

constexpr std::int64_t kTimeoutSecondsMax = 86'400;

void add_global_flags(CLI::App& app, Settings& settings, std::int64_t& timeout_s) {
  app.add_option("--rpc", settings.rpc_url, "URL of the node's JSON-RPC listener")
      ->capture_default_str();
  app.add_flag("--json", settings.json, "print the raw result instead of a table");
  app.add_option("--timeout", timeout_s, "seconds a call may take")
      ->check(CLI::Range(std::int64_t{1}, kTimeoutSecondsMax))
      ->capture_default_str();
  app.add_option("--ca-file", settings.ca_file, "PEM file of the authorities to trust (https)");
}

}  // namespace

std::variant<Parsed, Said> parse_command_line(std::vector<std::string> arguments,
                                              std::string token) {
  Settings settings;
  settings.token = std::move(token);
  std::int64_t timeout_s = settings.timeout.count();
  Selection selection;

  CLI::App app("Client of a tenzrod node. TENZRO_TOKEN in the environment is sent as bearer token.",
               "tenzro");
  app.set_version_flag("--version", "tenzro " TENZRO_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // global flags are taken before and after the subcommand
  add_global_flags(app, settings, timeout_s);
  CLI::App& moe = *app.add_subcommand("moe", "experts, gates and forwards");
  moe.require_subcommand(1);
  add_shard_commands(moe, selection);
  add_expert_commands(moe, selection);
  add_forward_commands(moe, selection);
  add_prepare_commands(moe, selection);
  add_receipt_commands(moe, selection);
  add_node_commands(app, selection);
  add_demo_command(app, selection);
  add_doctor_command(app, selection);
  add_demo_command(app, selection);
  add_bench_command(app, selection);

  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    const int code = app.exit(error, text, text);
    return Said{code == 0 ? ExitCode::done : ExitCode::usage, text.str()};
  }
  settings.timeout = std::chrono::seconds(timeout_s);
  Outcome<std::string> url = normalise_url(settings.rpc_url);
  if (!url) return Said{url.error().code, url.error().message + "\n"};
  settings.rpc_url = std::move(*url);
  return Parsed{std::move(settings), std::move(*selection.command)};
}

}  // namespace tenzro::cli
