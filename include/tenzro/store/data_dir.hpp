#pragma once
/// \file
/// DataDir: the one directory where a node keeps what must outlive it.
///
/// Holds `identity.key` (identity.hpp), `addresses.json` (addresses.hpp), `index.db` and, unless
/// told otherwise, `blobs/` (store.hpp), and `lock`. Rules
///  - One process a directory: it stays locked until this object dies or the process does. Why: two
///  nodes with one
///    identity would contradict each other in public.
///  - Made with mode 0700, with what is missing above it. A directory that exists keeps its mode;
///  one that others can
///    enter is a warning, because the key in it is protected by its own mode.
///  - A directory that cannot be written is refused at once, not at the first load.
///  - write_file is all or nothing and durable when it returns: bytes beside, fsync, rename, fsync
///  of the directory.
///    Leftovers of a killed process (`.NAME.tmp`) are removed on open.
/// Thread: one at a time.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/store/file_system.hpp"

namespace tenzro::store {

class DataDir {
 public:
  /// `files` must outlive the result. Error: busy, naming the directory and the process that has
  /// it; io.
  [[nodiscard]] static Result<DataDir> open(const std::string& path, FileSystem& files);

  DataDir(DataDir&&) noexcept;
  DataDir& operator=(DataDir&&) noexcept;
  ~DataDir();

  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] std::string path_of(std::string_view name) const;
  [[nodiscard]] FileSystem& files() const;
  /// What an operator should hear about, in sentences.
  [[nodiscard]] const std::vector<std::string>& warnings() const;

  /// `name` is a plain file name of ours.
  [[nodiscard]] Status write_file(std::string_view name, std::string_view bytes, unsigned mode);
  /// A file that is not there is no error.
  [[nodiscard]] Status remove_file(std::string_view name);

 private:
  struct State;
  explicit DataDir(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tenzro::store
