#pragma once
/// \file
/// DirectoryLock: one process a directory.
///
/// An exclusive flock on `<directory>/lock`, which also holds the owner's process id for the error
/// text. The kernel drops the lock with the process, so a kill leaves nothing to clean; the file
/// itself stays, because removing it would let two processes lock two different files of one name.
/// Thread: owner's only.
#include <string>

#include "tenzro/base/result.hpp"
#include "tenzro/store/file_system.hpp"

#include "fd.hpp"

namespace tenzro::store {

class DirectoryLock {
 public:
  /// `what` begins the error text ("data directory '/x'"). Error: busy where another process has
  /// it; io.
  [[nodiscard]] static Result<DirectoryLock> acquire(FileSystem& files,
                                                     const std::string& directory,
                                                     const std::string& what);

 private:
  explicit DirectoryLock(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

/// Makes `directory` and what is missing above it, the last with mode 0700, durably.
[[nodiscard]] Status make_directory(FileSystem& files, const std::string& directory,
                                    const std::string& what);

}  // namespace tenzro::store
