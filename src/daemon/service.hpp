#pragma once
/// \file
/// The running daemon: owns every part, in the order in which they depend on each other.
///
/// Starts listening, loads what the store remembers, serves until told to stop, drains, ends.
/// Thread: the main one.
#include <functional>
#include <memory>

#include "tenzro/compute/backend.hpp"
#include "tenzro/net/endpoint.hpp"

#include "exit_code.hpp"
#include "startup.hpp"

namespace tenzro::daemon {

/// What a program around the daemon may put in place of its own parts.
struct Seams {
  /// Around each backend as it is made; empty: nothing.
  std::function<std::unique_ptr<compute::Backend>(std::unique_ptr<compute::Backend>)> wrap_backend;
  std::function<Result<std::unique_ptr<net::Endpoint>>(exec::Loop&, const crypto::KeyPair&,
                                                       const net::Options&, net::Handler&)>
      listen = net::Endpoint::listen;
};

/// Runs until SIGTERM or SIGINT (drains, at most 10 s), or a second one (ends at once). One that
/// came while it started counts. Requires hold_signals().
[[nodiscard]] ExitCode run_service(const Settings& settings, const Seams& seams = {});

}  // namespace tenzro::daemon
