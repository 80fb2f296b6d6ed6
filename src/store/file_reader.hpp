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

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/store/file_system.hpp"

#include "fd.hpp"

namespace tenzro::store {

class FileReader {
 public:
  /// Error: not_found; io where it is no regular file.
  [[nodiscard]] static Result<FileReader> open(FileSystem& files, const std::string& path);

  /// As it was on open.
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }

  /// Fills `to`. Error: io, also where the file ends early.
  [[nodiscard]] Status read_at(std::uint64_t offset, std::span<std::byte> to) const;
  /// Tells the system that all of it will be read, from the beginning: it reads on while others
  /// work on what came. Advice only.
  void expect_whole_read() const;
  /// A buffer of bytes [offset, offset + length), which must lie inside size_bytes().
  [[nodiscard]] Result<BufferRef> read(std::uint64_t offset, std::uint64_t length) const;

 private:
  FileReader(FileSystem& files, std::string path, Fd fd, std::uint64_t size_bytes)
      : files_(&files), path_(std::move(path)), fd_(std::move(fd)), size_bytes_(size_bytes) {}

  FileSystem* files_;
  std::string path_;
  Fd fd_;
  std::uint64_t size_bytes_;
};

}  // namespace tenzro::store
