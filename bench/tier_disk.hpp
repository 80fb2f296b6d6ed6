#pragma once
/// \file
/// The disk below a bench: files out of the page cache, plain reads to hold ours against, and a
/// disk that takes its time.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tenzro/store/file_system.hpp"

namespace tenzro::bench {

/// Every regular file below the folder, largest first.
[[nodiscard]] std::vector<std::string> files_below(const std::string& folder);
/// Synced and dropped from the page cache; false where the system kept it.
bool drop_from_cache(const std::string& path);
/// Seconds of one stream of preads from end to end.
[[nodiscard]] double read_seconds(const std::string& path);
/// Bytes a second of so many threads that read the files in turn.
[[nodiscard]] double read_rate(const std::vector<std::string>& paths, std::size_t threads);

/// One disk for all its readers: bytes come at `set_rate`. A file whose beginning is read is queued
/// whole, behind those before it: so the system reads files of which it was told that they will be
/// read from end to end.
class SlowFiles final : public store::FileSystem {
 public:
  /// Bytes a second; 0: as fast as the system gives them.
  void set_rate(double bytes_per_s);
  [[nodiscard]] std::ptrdiff_t pread(int fd, std::byte* to, std::size_t size,
                                     std::uint64_t offset) override;

 private:
  std::mutex mutex_;  // guards what follows
  double rate_ = 0;
  std::chrono::steady_clock::time_point free_at_;
  std::map<int, std::chrono::steady_clock::time_point> begun_at_;  ///< by file descriptor
};

}  // namespace tenzro::bench
