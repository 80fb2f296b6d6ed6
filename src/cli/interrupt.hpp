#pragma once
/// \file
/// Ctrl-C: the first one asks the command to end; the second ends the process as usual.
#include <chrono>

namespace tenzro::cli {

/// Called once, by main: SIGINT and SIGTERM set the flag, SIGPIPE is ignored.
void install_signal_handlers();
[[nodiscard]] bool is_interrupted();
/// Waits that long, or until a signal; false where the command is to end.
[[nodiscard]] bool wait(std::chrono::milliseconds duration);

}  // namespace tenzro::cli
