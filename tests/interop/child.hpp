#pragma once
// A script of this folder as a child process, spoken to by lines.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tenzro::interop {

/// Whether node and the packages of package.json are there.
[[nodiscard]] bool has_packages();

class Child {
 public:
  /// `node SCRIPT ARGUMENTS...`; its standard input stays open until the child is destroyed.
  Child(const std::string& script, const std::vector<std::string>& arguments);
  /// Ends it.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The next line, if it is there already. Never waits.
  [[nodiscard]] std::optional<std::string> line();
  /// The next line; nothing where none comes within `patience`, or it has ended.
  [[nodiscard]] std::optional<std::string> line_within(std::chrono::seconds patience);
  /// A line for it to read.
  void send(const std::string& line) const;

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string unread_;
  bool has_ended_ = false;
};

}  // namespace tenzro::interop
