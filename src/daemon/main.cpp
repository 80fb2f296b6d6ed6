#include <csignal>
#include <cstdio>
#include <iostream>

#include <CLI/CLI.hpp>
#include <malloc.h>
#include <sys/resource.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/store/identity.hpp"

#include "service.hpp"
#include "signals.hpp"
#include "startup.hpp"
#include "version.hpp"

namespace {

using namespace tenzro;
using daemon::ExitCode;

int to_status(ExitCode code) {
  return static_cast<int>(code);
}

int print_id(const daemon::Settings& settings) {
  auto identity = store::read_identity(settings.data_dir);
  if (!identity && identity.error().code == ErrorCode::not_found) {
    store::FileSystem files;
    auto dir = store::DataDir::open(settings.data_dir, files);
    if (!dir) {
      std::cerr << dir.error().message() << "\n";
      return to_status(dir.error().code == ErrorCode::busy ? ExitCode::locked : ExitCode::storage);
    }
    identity = store::load_or_create_identity(*dir);
  }
  if (!identity) {
    std::cerr << identity.error().message() << "\n";
    return to_status(ExitCode::storage);
  }
  const auto key = crypto::KeyPair::from_seed(identity->seed);
  std::cout << "endpoint_id " << to_hex(key.public_key()) << "\nprovider " << to_hex(key.address())
            << "\n";
  return to_status(ExitCode::done);
}

/// Blobs and tensors go back to the system when they are freed, instead of staying in the heap of
/// the thread that had them: resident memory is then weights and little else. Why fixed: glibc
/// raises its own threshold with every large block.
void return_large_blocks() {
  constexpr int kMmapThresholdBytes = 1 << 20;
  constexpr int kArenasMax = 4;
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);  // NOLINT(concurrency-mt-unsafe): one thread yet
  mallopt(M_ARENA_MAX, kArenasMax);                // NOLINT(concurrency-mt-unsafe)
}

/// As many open files as the system lets us have: a connection, a blob being read and a file being
/// written take one each.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  daemon::hold_signals();
  return_large_blocks();
  raise_file_limit();
  std::signal(SIGPIPE, SIG_IGN);  // a log reader that leaves does not end the node
  daemon::Flags flags;
  bool check_config = false;
  bool wants_id = false;
  CLI::App app{"tenzrod: one node that holds and runs experts of mixture-of-experts models"};
  app.option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);  // a wrapper's flag can be overridden
  app.add_option("--config", flags.config_file,
                 "TOML file; see configs/tenzrod.toml for every key");
  app.add_option("--data-dir", flags.data_dir,
                 "identity, blobs and index; one process a directory");
  app.add_option("--rpc-listen", flags.rpc_listen,
                 "address:port of JSON-RPC over HTTP; port 0 lets the system choose");
  app.add_option("--quic-listen", flags.quic_listen, "address:port for other nodes");
  app.add_option("--bootstrap", flags.bootstrap,
                 "endpoint_id@host:port of a node to join, beside those of the configuration; "
                 "repeatable")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--insecure", flags.is_insecure, "listen off loopback without tokens");
  app.add_flag("--check-config", check_config, "check the configuration and exit");
  app.add_flag("--print-id", wants_id,
               "print endpoint id and provider address (made on first use) and exit");
  app.set_version_flag("--version", std::string("tenzrod ") + daemon::kVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? to_status(ExitCode::done) : to_status(ExitCode::usage);
  }
  const auto settings = daemon::read_settings(flags);
  if (!settings) {
    std::cerr << "tenzrod: " << settings.error().text << "\n";
    return to_status(settings.error().code);
  }
  if (check_config) {
    std::cout << "the configuration is valid\n";
    return to_status(ExitCode::done);
  }
  if (wants_id) return print_id(*settings);
  return to_status(daemon::run_service(*settings));
}
