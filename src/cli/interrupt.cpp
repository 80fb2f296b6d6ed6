#include "interrupt.hpp"

#include <csignal>

#include <poll.h>

namespace tenzro::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

extern "C" void on_signal(int /*signal*/) {
  interrupted = 1;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};

  action.sa_handler = on_signal;
  // One shot, and no restart of system calls: a wait ends at once, a second Ctrl-C kills.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  struct sigaction ignore {};

  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
}

bool is_interrupted() {
  return interrupted != 0;
}

bool wait(std::chrono::milliseconds duration) {
  if (!is_interrupted()) ::poll(nullptr, 0, static_cast<int>(duration.count()));
  return !is_interrupted();
}

}  // namespace tenzro::cli
