#pragma once
/// \file
/// TempFile: a file that becomes visible under its name whole and durable, or not at all.
///
/// Rules
///  - Bytes are written beside, fsynced, and renamed over the target; then the target's folder is
///  fsynced. Why in
///    this order: a rename that reaches the disk before the bytes would leave an empty file after a
///    power cut.
///  - A TempFile that is not committed removes its file when it dies. What a killed process leaves
///  is removed at the
///    next start by whoever owns the folder.
/// Thread: one at a time.
#include <cstdint>
#include <span>
#include <string>

#include "tenzro/base/result.hpp"
#include "tenzro/store/file_system.hpp"

#include "fd.hpp"

namespace tenzro::store {

class TempFile {
 public:
  /// `path` must be on the target's file system; whatever is there is replaced.
  [[nodiscard]] static Result<TempFile> create(FileSystem& files, std::string path, unsigned mode);

  TempFile(TempFile&& other) noexcept;
  TempFile& operator=(TempFile&&) = delete;
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile();

  [[nodiscard]] Status append(std::span<const std::byte> bytes);
  /// On an error the target has its old bytes or all the new ones, and either may be what a power
  /// cut leaves.
  [[nodiscard]] Status commit_as(const std::string& target);

 private:
  TempFile(FileSystem& files, std::string path, Fd fd)
      : files_(&files), path_(std::move(path)), fd_(std::move(fd)) {}

  FileSystem* files_;
  std::string path_;  ///< empty once there is nothing to remove
  Fd fd_;
};

/// Makes the entries of folder `path` durable.
[[nodiscard]] Status sync_folder(FileSystem& files, const std::string& path);

/// The folder that `path` stands in.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace tenzro::store
