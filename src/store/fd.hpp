#pragma once
/// \file
/// Fd: an open file descriptor that closes itself. One owner, any thread.
#include <utility>

#include <unistd.h>

namespace tenzro::store {

class Fd {
 public:
  Fd() = default;

  explicit Fd(int fd) : fd_(fd) {}

  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  ~Fd() { close(); }

  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

  [[nodiscard]] int get() const { return fd_; }

  /// What close(2) may still report was asked for by fsync before; nothing is left to save here.
  void close() {
    if (fd_ >= 0) static_cast<void>(::close(fd_));
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace tenzro::store
