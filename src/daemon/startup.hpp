#pragma once
/// \file
/// From flags, environment and file to settings that are known to be usable.
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/config/config.hpp"
#include "tenzro/http/server.hpp"

#include "exit_code.hpp"

namespace tenzro::daemon {

struct Flags {
  std::string config_file;
  std::string data_dir;
  std::string rpc_listen;
  std::string quic_listen;
  std::vector<std::string> bootstrap;
  bool is_insecure = false;
};

struct Settings {
  config::Config config;
  std::string data_dir;
  http::Options http;
};

/// Why the process does not start, and what it exits with.
struct Refusal {
  ExitCode code = ExitCode::usage;
  std::string text;
};

template <typename T>
using Started = tl::expected<T, Refusal>;

/// Reads and checks everything that needs no running node: file, tokens, addresses, the rule about
/// listening off loopback.
[[nodiscard]] Started<Settings> read_settings(const Flags& flags);

}  // namespace tenzro::daemon
