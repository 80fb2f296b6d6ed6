#pragma once
/// \file
/// FileSystem: the file calls whose failure may not lose anything, as a seam.
///
/// Each member is the system call of its name: -1 and errno on failure, and a write may be short.
/// The class itself calls the system; a test derives from it and fails the n-th call, so that a
/// full disk, a dying disk and a torn rename are cases like any other. What only looks (listings,
/// sizes) does not pass through here: it has nothing to lose. Thread: any.
#include <cstddef>
#include <cstdint>
#include <string>

namespace tenzro::store {

class FileSystem {
 public:
  FileSystem() = default;
  virtual ~FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  /// `flags` as open(2); O_CLOEXEC is added.
  [[nodiscard]] virtual int open(const std::string& path, int flags, unsigned mode);
  [[nodiscard]] virtual std::ptrdiff_t write(int fd, const std::byte* bytes, std::size_t size);
  [[nodiscard]] virtual std::ptrdiff_t pread(int fd, std::byte* to, std::size_t size,
                                             std::uint64_t offset);
  [[nodiscard]] virtual std::ptrdiff_t pwrite(int fd, const std::byte* bytes, std::size_t size,
                                              std::uint64_t offset);
  [[nodiscard]] virtual int fsync(int fd);
  [[nodiscard]] virtual int rename(const std::string& from, const std::string& to);
  [[nodiscard]] virtual int unlink(const std::string& path);
  [[nodiscard]] virtual int mkdir(const std::string& path, unsigned mode);
};

}  // namespace tenzro::store
