#pragma once
/// \file
/// A node that answers from a script, a directory that is removed, and one-line parsing.
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "command_line.hpp"

namespace tenzro::cli {

/// Answers calls in the order given; records what was asked.
class ScriptedNode final : public Node {
 public:
  std::deque<Outcome<Json>> answers;
  std::deque<Outcome<Page>> pages;
  std::vector<Request> requests;
  std::vector<std::string> uploads;

  Outcome<Json> call(const Request& request) override {
    requests.push_back(request);
    return take(answers);
  }

  Outcome<Page> get(const std::string& /*path*/) override { return take(pages); }

  Outcome<std::string> upload(const std::string& path) override {
    uploads.push_back(path);
    return "tenzro://blob/uploaded";
  }

 private:
  template <typename T>
  static Outcome<T> take(std::deque<Outcome<T>>& script) {
    if (script.empty()) return failure(ExitCode::unreachable, "the script is over");
    Outcome<T> next = std::move(script.front());
    script.pop_front();
    return next;
  }
};

class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cli_test.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }

  ~Directory() { std::filesystem::remove_all(path_); }

  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  [[nodiscard]] std::string file(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path(name);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::variant<Parsed, Said> parse(std::vector<std::string> arguments) {
  return parse_command_line(std::move(arguments), "");
}

inline Parsed parsed(std::vector<std::string> arguments) {
  auto result = parse(std::move(arguments));
  if (const auto* said = std::get_if<Said>(&result)) throw std::runtime_error(said->text);
  return std::get<Parsed>(std::move(result));
}

inline Outcome<Request> request_of(std::vector<std::string> arguments, Node& node) {
  return parsed(std::move(arguments)).command.make_request(node);
}

inline std::string show(std::vector<std::string> arguments, const std::string& result) {
  return parsed(std::move(arguments)).command.show(Json::parse(result));
}

struct Ran {
  Outcome<void> outcome;
  std::string out;
  std::string err;
};

/// Runs to the end; `waits` is how many waits are allowed before the command is told to end.
inline Ran run_with(Node& node, std::vector<std::string> arguments, int waits = 100) {
  const Parsed line = parsed(std::move(arguments));
  std::ostringstream out;
  std::ostringstream err;
  Session session{.node = node,
                  .settings = line.settings,
                  .out = out,
                  .err = err,
                  .wait = [&waits](std::chrono::milliseconds) { return waits-- > 0; }};
  Outcome<void> outcome = run(line.command, session);
  return {std::move(outcome), out.str(), err.str()};
}

}  // namespace tenzro::cli
