#pragma once
/// \file
/// FileReader: a regular file, opened for reading at any offset.
///
/// Only regular files: opening a pipe or a device may block or do something, so what a name stands
/// for is asked before it is opened, and again afterwards. Symbolic links are followed. Thread:
/// any.
#include <cstdint>
#include <span>
#include <string>

#include <sys/stat.h>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/store/file_system.hpp"
#include "tenzro/work/job.hpp"

#include "fd.hpp"

namespace tenzro::store {

class FileReader {
 public:
  /// Errors, here and of reads, name it as `name`: its path, where that is empty. Error: not_found;
  /// io where it is no regular file.
  [[nodiscard]] static Result<FileReader> open(FileSystem& files, const std::string& path,
                                               const std::string& name = {});

  /// As it was on open.
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }

  /// What tells the file, as it was on open, from one that was written since or put in its place.
  [[nodiscard]] const std::string& version() const { return version_; }

  /// The same as a number, never 0: of its size and the time of its last change of any kind too.
  [[nodiscard]] work::FileMark mark() const { return mark_; }

  /// Of the file that is at `path` now; 0 where there is none.
  [[nodiscard]] static work::FileMark mark_at(const std::string& path);

  /// Fills `to`. Error: io, also where the file ends early.
  [[nodiscard]] Status read_at(std::uint64_t offset, std::span<std::byte> to) const;
  /// Tells the system that all of it will be read, from the beginning: it reads on while others
  /// work on what came. Advice only.
  void expect_whole_read() const;
  /// A buffer of bytes [offset, offset + length), which must lie inside size_bytes().
  [[nodiscard]] Result<BufferRef> read(std::uint64_t offset, std::uint64_t length) const;

 private:
  FileReader(FileSystem& files, std::string name, Fd fd, const struct stat& info);

  FileSystem* files_;
  std::string name_;
  Fd fd_;
  std::uint64_t size_bytes_;
  std::string version_;
  work::FileMark mark_;
};

}  // namespace tenzro::store
