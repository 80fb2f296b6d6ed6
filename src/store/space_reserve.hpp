#pragma once
/// \file
/// SpaceReserve: disk space put by for the change that frees disk space.
///
/// A file of kReserveBytes that is given up when the index cannot write that something is to go, or
/// cannot be opened for it.
/// Why: SQLite writes a delete before it takes effect, so on a full disk nothing could be unloaded,
/// and the disk would stay full. Rules
///  - A node starts without one where it cannot be made; it is tried again after the next change
///    that frees space.
///  - Its bytes are really written: not every file system can promise space otherwise.
/// Thread: one at a time.
#include <cstddef>
#include <string>

#include "tenzro/store/file_system.hpp"

namespace tenzro::store {

/// A delete touches a few pages; each is written to the log, with room for a log that has grown.
inline constexpr std::size_t kReserveBytes = std::size_t{1} << 20U;

class SpaceReserve {
 public:
  SpaceReserve(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  /// Puts the space by, unless that is done; without an effect where it cannot.
  void make();
  /// False where there is none to give up.
  [[nodiscard]] bool release();

 private:
  [[nodiscard]] bool is_there() const;
  [[nodiscard]] bool write() const;

  FileSystem& files_;
  std::string path_;
  bool is_made_ = false;
};

}  // namespace tenzro::store
