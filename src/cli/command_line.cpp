#include "command_line.hpp"

#include <algorithm>
#include <sstream>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "files.hpp"
#include "format.hpp"

namespace tenzro::cli {
namespace {

constexpr std::int64_t kTimeoutSecondsMax = 86'400;
constexpr std::uint64_t kAuthoritiesBytesMax = 16ULL << 20U;

void add_global_flags(CLI::App& app, Settings& settings, std::int64_t& timeout_s) {
  app.add_option("--rpc", settings.rpc_url, "URL of the node's JSON-RPC listener")
      ->capture_default_str();
  app.add_flag("--json", settings.json, "print the raw result instead of a table");
  app.add_option("--timeout", timeout_s, "seconds a call may take")
      ->check(CLI::Range(std::int64_t{1}, kTimeoutSecondsMax))
      ->capture_default_str();
  app.add_option("--ca-file", settings.ca_file, "PEM file of the authorities to trust (https)");
}

/// Whole numbers are decimal digits and nothing else: the parser's own reading takes 010 for eight
/// and nothing for zero.
void read_numbers_plainly(CLI::App& command) {
  const CLI::Validator plain(
      [](std::string& text) {
        const bool is_plain = !text.empty() &&
                              text.find_first_not_of("0123456789") == std::string::npos &&
                              (text.size() == 1 || text.front() != '0');
        return is_plain ? std::string() : "'" + text + "' is not a whole number in decimal digits";
      },
      "");
  for (CLI::Option* option : command.get_options()) {
    if (option->get_type_name() == "UINT") option->check(plain);
  }
}

/// What would not be one word of a header line is refused.
Outcome<void> check_token(std::string_view token) {
  const bool is_token =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (is_token) return {};
  return failure(ExitCode::usage,
                 "TENZRO_TOKEN: holds a character that no token has (want printable ASCII without "
                 "spaces)");
}

/// The token and the authorities: an error now is clearer than one of the transfer.
Outcome<void> check_secrets(const Settings& settings) {
  if (settings.ca_file.empty()) return check_token(settings.token);
  if (!settings.rpc_url.starts_with("https://"))
    return failure(ExitCode::usage, "--ca-file: is for https, and --rpc is " + settings.rpc_url);
  const auto authorities = read_file(settings.ca_file, kAuthoritiesBytesMax);
  if (!authorities)
    return failure(authorities.error().code, "--ca-file: " + authorities.error().message);
  return check_token(settings.token);
}

/// The first word that no command took, where no command was chosen at all; else nothing. Why: the
/// parser's own error then says only that a command is missing.
std::optional<std::string> unknown_word(const CLI::App& app, const CLI::App& moe) {
  const CLI::App& group = moe.parsed() ? moe : app;
  if (!group.get_subcommands().empty()) return std::nullopt;
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty()) return std::nullopt;
  return words.front();
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
  add_drain_command(app, selection);
  add_doctor_command(app, selection);
  add_demo_command(app, selection);
  add_bench_command(app, selection);

  for (CLI::App* group : {&app, &moe}) {
    for (CLI::App* command : group->get_subcommands([](CLI::App*) { return true; }))
      read_numbers_plainly(*command);
  }

  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (const auto word = unknown_word(app, moe)) {
      return Said{ExitCode::usage, "'" + printable(*word) + "' is no command or flag of '" +
                                       (moe.parsed() ? "tenzro moe" : "tenzro") +
                                       "'.\nRun with --help for more information.\n"};
    }
    std::ostringstream text;
    const int code = app.exit(error, text, text);
    return Said{code == 0 ? ExitCode::done : ExitCode::usage, text.str()};
  }
  settings.timeout = std::chrono::seconds(timeout_s);
  Outcome<std::string> url = normalise_url(settings.rpc_url);
  if (!url) return Said{url.error().code, "--rpc: " + url.error().message + "\n"};
  settings.rpc_url = std::move(*url);
  if (const auto usable = check_secrets(settings); !usable)
    return Said{usable.error().code, usable.error().message + "\n"};
  return Parsed{std::move(settings), std::move(*selection.command)};
}

}  // namespace tenzro::cli
