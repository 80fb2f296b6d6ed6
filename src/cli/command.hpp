#pragma once
/// \file
/// Command: what a parsed command line asks for.
///
/// Most commands are one call: a request made from the flags, and a way to show its result. Others
/// are programs of several calls. Both are values, so that tests look at them without a node.
#include <chrono>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "http_node.hpp"
#include "json.hpp"
#include "node.hpp"
#include "outcome.hpp"

namespace tenzro::cli {

/// What a running command may use.
struct Session {
  Node& node;
  const Settings& settings;
  std::ostream& out;
  /// Progress and remarks.
  std::ostream& err;
  /// Waits; false where the command is to end.
  std::function<bool(std::chrono::milliseconds)> wait;
};

struct Command {
  /// Reads the local files that the flags name; an upload may come before the request.
  std::function<Outcome<Request>(Node&)> make_request;
  /// The result for a person.
  std::function<std::string(const Json& result)> show;
  /// Keeps a part of the result in a file; may be empty.
  std::function<Outcome<void>(const Json& result)> keep;
  /// Where this is set it is the whole command, and the three above are empty.
  std::function<Outcome<void>(Session&)> program;
};

/// Where the chosen subcommand leaves its command.
struct Selection {
  std::optional<Command> command;
};

[[nodiscard]] Outcome<void> run(const Command& command, Session& session);

/// A command that is one call with these parameters.
[[nodiscard]] Command call_of(std::string method, Json params,
                              std::function<std::string(const Json&)> show);

}  // namespace tenzro::cli
