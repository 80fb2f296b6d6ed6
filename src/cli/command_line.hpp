#pragma once
/// \file
/// The command line: flags in, a Command out.
#include <string>
#include <variant>
#include <vector>

#include "command.hpp"
#include "http_node.hpp"

namespace tenzro::cli {

struct Parsed {
  Settings settings;
  Command command;
};

/// Help or version text that was asked for, or what is wrong with the line.
struct Said {
  ExitCode code = ExitCode::done;
  std::string text;
};

/// `arguments` without the program's name; `token` from the environment.
[[nodiscard]] std::variant<Parsed, Said> parse_command_line(std::vector<std::string> arguments,
                                                            std::string token);

}  // namespace tenzro::cli
