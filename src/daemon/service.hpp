#pragma once
/// \file
/// The running daemon: owns every part, in the order in which they depend on each other.
///
/// Starts listening, loads what the store remembers, serves until told to stop, drains, ends.
/// Thread: the main one.
#include <memory>

#include "exit_code.hpp"
#include "startup.hpp"

namespace tenzro::daemon {

/// Runs until SIGTERM or SIGINT (drains, at most 10 s), or a second one (ends at once). One that
/// came while it started counts. Requires hold_signals().
[[nodiscard]] ExitCode run_service(const Settings& settings);

}  // namespace tenzro::daemon
