#pragma once

/// \file
/// The signals that the node takes itself, from the first line of main() on.
///
/// Held back while the node starts, then let through to the handlers that drain it. Why: before a
/// handler stands, SIGTERM kills, and a supervisor that stops the node at once would read a crash
/// from its exit status. Threads started meanwhile keep them blocked, so they come to the main one.
namespace tenzro::daemon {

/// SIGTERM, SIGINT and SIGHUP wait. Called before any thread exists.
void hold_signals();
/// Whatever waited arrives now.
void release_signals();

}  // namespace tenzro::daemon
