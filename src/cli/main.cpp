// `tenzro`: the client of a node. Everything but the process's own affairs is in command_line.hpp.
#include <cstdlib>
#include <iostream>

#include <curl/curl.h>

#include "command_line.hpp"
#include "interrupt.hpp"

namespace {

using namespace tenzro::cli;

int finish(ExitCode code) {
  std::cout.flush();
  // A full disk or a closed pipe behind standard output must not look like success.
  if (std::cout || code != ExitCode::done) return static_cast<int>(code);
  std::cerr << "tenzro: cannot write the output\n";
  return static_cast<int>(ExitCode::refused);
}

int run_command(int argc, char** argv) {
  install_signal_handlers();
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const char* const token =
      std::getenv("TENZRO_TOKEN");  // NOLINT(concurrency-mt-unsafe): one thread
  auto parsed = parse_command_line({argv + 1, argv + argc}, token == nullptr ? "" : token);
  if (const auto* said = std::get_if<Said>(&parsed)) {
    (said->code == ExitCode::done ? std::cout : std::cerr) << said->text;
    return finish(said->code);
  }
  const auto& [settings, command] = std::get<Parsed>(parsed);
  HttpNode node(settings);
  Session session{.node = node,
                  .settings = settings,
                  .out = std::cout,
                  .err = std::cerr,
                  .wait = [](std::chrono::milliseconds duration) { return wait(duration); }};
  const Outcome<void> outcome = run(command, session);
  if (outcome) return finish(ExitCode::done);
  std::cout.flush();
  std::cerr << "tenzro: " << outcome.error().message << "\n";
  return finish(outcome.error().code);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const std::exception& error) {  // out of memory, or a library's own
    std::cerr << "tenzro: " << error.what() << "\n";
    return static_cast<int>(ExitCode::usage);
  }
}
