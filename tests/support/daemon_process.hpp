#pragma once
/// \file
/// A real tenzrod in a process of its own: port 0, a temporary data directory, gone at the end of
/// the test.
///
/// Waiting is reading: a start ends when the log says "ready" or ends, a stop when the process has
/// been reaped. No sleeps.
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "support/temporary_directory.hpp"

namespace tenzro::testing {

using TempFolder = TemporaryDirectory;

class DaemonProcess {
 public:
  struct Options {
    std::vector<std::string> arguments;
    std::map<std::string, std::string> environment;
    /// Sent when the log begins, long before "ready"; 0: none.
    int signal_while_starting = 0;
    /// Instead of tenzrod.
    std::string program = {};
  };

  /// Starts `tenzrod --data-dir DATA_DIR --rpc-listen 127.0.0.1:0 --quic-listen 127.0.0.1:0
  /// ARGUMENTS` and waits until it is ready or has ended.
  DaemonProcess(std::string data_dir, const Options& options);

  explicit DaemonProcess(std::string data_dir) : DaemonProcess(std::move(data_dir), Options{}) {}

  /// Kills what still runs.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  [[nodiscard]] bool is_ready() const { return !rpc_.empty(); }

  /// "127.0.0.1:port"
  [[nodiscard]] const std::string& rpc() const { return rpc_; }

  [[nodiscard]] const std::string& log() const { return log_; }

  [[nodiscard]] pid_t pid() const { return pid_; }

  void signal(int number) const;
  /// Reads the log to its end and reaps: the exit status, or 128 + the signal.
  int wait();

 private:
  void read_until_ready(int signal_while_starting);

  std::string data_dir_;
  pid_t pid_ = -1;
  int log_fd_ = -1;
  std::string log_;
  std::string rpc_;
};

}  // namespace tenzro::testing
