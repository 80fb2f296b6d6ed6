#include "child.hpp"

#include <filesystem>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenzro::interop {
namespace {

const std::string kFolder = TENZRO_INTEROP_DIR;

}  // namespace

bool has_packages() {
  return std::filesystem::exists(TENZRO_NODE) &&
         std::filesystem::exists(kFolder + "/node_modules/@number0/iroh");
}

Child::Child(const std::string& script, const std::vector<std::string>& arguments) {
  signal(SIGPIPE, SIG_IGN);  // a child that ended is seen by its silence
  int to_child[2];
  int from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  std::vector<std::string> words = {TENZRO_NODE, "--no-deprecation", kFolder + "/" + script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(to_child[0], STDIN_FILENO);
    dup2(from_child[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(to_child[0]);
  close(from_child[1]);
  input_ = to_child[1];
  output_ = from_child[0];
  fcntl(output_, F_SETFL, O_NONBLOCK);
  if (pid_ < 0) throw std::runtime_error("no child");
}

Child::~Child() {
  close(input_);
  close(output_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<std::string> Child::line() {
  char buffer[65536];
  const ssize_t count = read(output_, buffer, sizeof buffer);
  if (count > 0) unread_.append(buffer, static_cast<std::size_t>(count));
  if (count == 0) has_ended_ = true;
  const std::size_t end = unread_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

std::optional<std::string> Child::line_within(std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (auto next = line()) return next;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (has_ended_ || left.count() <= 0) return std::nullopt;
    pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
    poll(&ready, 1, static_cast<int>(left.count()));
  }
}

void Child::send(const std::string& line) const {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = write(input_, text.data() + sent, text.size() - sent);
    if (count <= 0) return;
    sent += static_cast<std::size_t>(count);
  }
}

}  // namespace tenzro::interop
