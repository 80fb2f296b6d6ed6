#include "tier_disk.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenzro::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

/// Whether the first page of the file is in memory.
bool is_cached(int fd) {
  const long page = sysconf(_SC_PAGESIZE);
  void* mapping = mmap(nullptr, static_cast<std::size_t>(page), PROT_READ, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) return true;
  unsigned char resident = 1;
  static_cast<void>(mincore(mapping, static_cast<std::size_t>(page), &resident));
  munmap(mapping, static_cast<std::size_t>(page));
  return (resident & 1U) != 0;
}

}  // namespace

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::pair<std::uintmax_t, std::string>> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) found.emplace_back(entry.file_size(), entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [size, path] : found) paths.push_back(std::move(path));
  return paths;
}

bool drop_from_cache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_synced = ::fsync(fd) == 0;
  const bool is_advised = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
  const bool is_gone = is_synced && is_advised && !is_cached(fd);
  ::close(fd);
  return is_gone;
}

double read_seconds(const std::string& path) {
  std::vector<std::byte> piece(kPieceBytes);
  const Clock::time_point begin = Clock::now();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  off_t offset = 0;
  for (;;) {
    const ssize_t got = ::pread(fd, piece.data(), piece.size(), offset);
    if (got <= 0) break;
    offset += got;
  }
  ::close(fd);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double read_rate(const std::vector<std::string>& paths, std::size_t threads) {
  std::atomic<std::size_t> next = 0;
  std::uintmax_t bytes = 0;
  for (const std::string& path : paths) bytes += std::filesystem::file_size(path);
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < threads; ++i) {
    readers.emplace_back([&] {
      for (std::size_t at = next++; at < paths.size(); at = next++)
        static_cast<void>(read_seconds(paths[at]));
    });
  }
  for (std::thread& reader : readers) reader.join();
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - begin).count();
}

void SlowFiles::set_rate(double bytes_per_s) {
  const std::lock_guard lock(mutex_);
  rate_ = bytes_per_s;
  free_at_ = Clock::now();
}

std::ptrdiff_t SlowFiles::pread(int fd, std::byte* to, std::size_t size, std::uint64_t offset) {
  const std::ptrdiff_t got = store::FileSystem::pread(fd, to, std::min(size, kPieceBytes), offset);

  struct stat info {};

  if (got <= 0 || ::fstat(fd, &info) != 0) return got;
  Clock::time_point until;
  {
    const std::lock_guard lock(mutex_);
    if (rate_ <= 0) return got;
    const auto time_of = [this](std::uint64_t bytes) {
      return std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(static_cast<double>(bytes) / rate_));
    };
    if (offset == 0) {
      begun_at_[fd] = std::max(free_at_, Clock::now());
      free_at_ = begun_at_[fd] + time_of(static_cast<std::uint64_t>(info.st_size));
    }
    until = begun_at_[fd] + time_of(offset + static_cast<std::uint64_t>(got));
  }
  std::this_thread::sleep_until(until);
  return got;
}

}  // namespace tenzro::bench
