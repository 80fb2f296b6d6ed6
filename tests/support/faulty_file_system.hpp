#pragma once
/// \file
/// FaultyFileSystem: the real one, until the n-th call.
///
/// Counts every call; the armed one (or the armed one and all after it) fails with the given errno
/// and does nothing.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/store/file_system.hpp"

namespace tenzro::testing {

class FaultyFileSystem final : public store::FileSystem {
 public:
  enum class Extent { one_call, all_from_then_on };

  /// The `nth` call from now (1 is the next) fails.
  void arm(std::size_t nth, int error, Extent extent) {
    has_fired_ = false;
    calls_ = 0;
    first_ = nth;
    last_ = extent == Extent::one_call ? nth : std::numeric_limits<std::size_t>::max();
    error_ = error;
  }

  void disarm() { first_ = std::numeric_limits<std::size_t>::max(); }

  [[nodiscard]] bool has_fired() const { return has_fired_; }

  /// Names of the calls since the last time this was asked.
  [[nodiscard]] std::vector<std::string> take_names() {
    const std::lock_guard lock(mutex_);
    return std::exchange(names_, {});
  }

  /// A write takes at most so many bytes.
  void limit_writes(std::size_t bytes) { write_bytes_max_ = bytes; }

  int open(const std::string& path, int flags, unsigned mode) override {
    return fails("open") ? -1 : FileSystem::open(path, flags, mode);
  }

  std::ptrdiff_t write(int fd, const std::byte* bytes, std::size_t size) override {
    return fails("write") ? -1 : FileSystem::write(fd, bytes, std::min(size, write_bytes_max_));
  }

  std::ptrdiff_t pread(int fd, std::byte* to, std::size_t size, std::uint64_t offset) override {
    return fails("pread") ? -1 : FileSystem::pread(fd, to, size, offset);
  }

  std::ptrdiff_t pwrite(int fd, const std::byte* bytes, std::size_t size,
                        std::uint64_t offset) override {
    return fails("pwrite")
               ? -1
               : FileSystem::pwrite(fd, bytes, std::min(size, write_bytes_max_), offset);
  }

  int fsync(int fd) override { return fails("fsync") ? -1 : FileSystem::fsync(fd); }

  int rename(const std::string& from, const std::string& to) override {
    return fails("rename") ? -1 : FileSystem::rename(from, to);
  }

  int unlink(const std::string& path) override {
    return fails("unlink") ? -1 : FileSystem::unlink(path);
  }

  int mkdir(const std::string& path, unsigned mode) override {
    return fails("mkdir") ? -1 : FileSystem::mkdir(path, mode);
  }

 private:
  bool fails(const char* name) {
    const std::size_t call = ++calls_;
    {
      const std::lock_guard lock(mutex_);
      names_.emplace_back(name);
    }
    if (call < first_ || call > last_) return false;
    has_fired_ = true;
    errno = error_;
    return true;
  }

  std::atomic<std::size_t> calls_{0};
  std::atomic<std::size_t> first_{std::numeric_limits<std::size_t>::max()};
  std::atomic<std::size_t> last_{0};
  std::atomic<int> error_{0};
  std::atomic<bool> has_fired_{false};
  std::mutex mutex_;
  std::vector<std::string> names_;  // under the mutex
  std::size_t write_bytes_max_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace tenzro::testing
