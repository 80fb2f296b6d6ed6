#include "support/daemon_process.hpp"

#include <array>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenzro::testing {

DaemonProcess::DaemonProcess(std::string data_dir, const Options& options)
    : data_dir_(std::move(data_dir)) {
  std::vector<std::string> words{
      options.program.empty() ? std::string(TENZRO_DAEMON) : options.program,
      "--data-dir",
      data_dir_,
      "--rpc-listen",
      "127.0.0.1:0",
      "--quic-listen",
      "127.0.0.1:0"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    ::dup2(pipe[1], STDOUT_FILENO);
    for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  log_fd_ = pipe[0];
  read_until_ready(options.signal_while_starting);
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) {
    signal(SIGKILL);
    wait();
  }
}

void DaemonProcess::read_until_ready(int signal_while_starting) {
  constexpr std::string_view kReady = "ready rpc=";
  std::array<char, 4096> chunk{};
  for (;;) {
    const std::size_t at = log_.find(kReady);
    const std::size_t end = at == std::string::npos ? at : log_.find(' ', at + kReady.size());
    if (end != std::string::npos) {
      rpc_ = log_.substr(at + kReady.size(), end - at - kReady.size());
      return;
    }
    const ssize_t got = ::read(log_fd_, chunk.data(), chunk.size());
    if (got <= 0) return;
    if (log_.empty() && signal_while_starting != 0) signal(signal_while_starting);
    log_.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

void DaemonProcess::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

int DaemonProcess::wait() {
  std::array<char, 4096> chunk{};
  ssize_t got = 0;
  while ((got = ::read(log_fd_, chunk.data(), chunk.size())) > 0)
    log_.append(chunk.data(), static_cast<std::size_t>(got));
  ::close(log_fd_);
  log_fd_ = -1;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace tenzro::testing
