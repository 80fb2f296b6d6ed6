#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "format.hpp"

namespace tenzro::cli {
namespace {

constexpr std::chrono::milliseconds kPollInterval{500};

struct DrainFlags {
  std::optional<std::uint32_t> limit_s;
  bool follow = false;
};

Request drain_request(const DrainFlags& flags) {
  Request request{.method = "tenzro_nodeDrain"};
  if (flags.limit_s) request.params["limit_s"] = *flags.limit_s;
  return request;
}

std::string drain_progress_text(const Json& status) {
  const Json& drain = member(status, "drain");
  return text(drain, "requests") + " requests in progress, " + text(drain, "only_here") +
         " experts held by no other node (" + text(drain, "movable") + " can be fetched), " +
         text(drain, "left_s") + " s left";
}

/// Until the node answers no more: then it has stopped.
Outcome<void> follow(Session& session, const DrainFlags& flags) {
  const Outcome<Json> begun = session.node.call(drain_request(flags));
  if (!begun) return failure(begun.error());
  std::string shown;
  std::string only_here = "0";
  while (true) {
    const Outcome<Json> status = session.node.call({.method = "tenzro_nodeStatus"});
    if (!status) {
      if (!shown.empty()) session.err << "\n";
      if (status.error().code != ExitCode::unreachable) return failure(status.error());
      session.out << (session.settings.json ? "{\"stopped\":true}\n" : "the node has stopped\n");
      if (only_here == "0") return {};
      return failure(ExitCode::refused, only_here +
                                            " experts are held by no other node: keep its data "
                                            "directory, or start it again");
    }
    only_here = text(member(*status, "drain"), "only_here");
    if (const std::string progress = drain_progress_text(*status); progress != shown) {
      session.err << "\r" << progress << std::flush;
      shown = progress;
    }
    if (!session.wait(kPollInterval)) {
      session.err << "\n";
      return failure(ExitCode::interrupted, "the node drains on: tenzro drain --follow");
    }
  }
}

Command command_of(const std::shared_ptr<DrainFlags>& flags) {
  Command drain;
  if (flags->follow) {
    drain.program = [flags](Session& session) { return follow(session, *flags); };
    return drain;
  }
  drain.make_request = [flags](Node&) -> Outcome<Request> { return drain_request(*flags); };
  drain.show = [](const Json&) {
    return std::string("the node takes no new work and will stop: tenzro drain --follow\n");
  };
  return drain;
}

}  // namespace

void add_drain_command(CLI::App& app, Selection& selection) {
  auto flags = std::make_shared<DrainFlags>();
  CLI::App& command = *app.add_subcommand(
      "drain", "let other nodes take what only this one holds, finish its work, stop it");
  command.add_option("--limit-s", flags->limit_s,
                     "seconds that others may take for it; then it stops anyhow (default 600)");
  command.add_flag("--follow", flags->follow, "wait until it has stopped and show its progress");
  command.callback([flags, &selection] { selection.command = command_of(flags); });
}

}  // namespace tenzro::cli
