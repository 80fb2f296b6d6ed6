#include "child.hpp"

#include <filesystem>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
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
  char buffer[4096];
  const ssize_t count = read(output_, buffer, sizeof buffer);
  if (count > 0) unread_.append(buffer, static_cast<std::size_t>(count));
  const std::size_t end = unread_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

}  // namespace tenzro::interop
