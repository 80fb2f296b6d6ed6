#include "tenzro/store/file_system.hpp"

#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenzro::store {

int FileSystem::open(const std::string& path, int flags, unsigned mode) {
  return ::open(path.c_str(), flags | O_CLOEXEC, static_cast<mode_t>(mode));
}

std::ptrdiff_t FileSystem::write(int fd, const std::byte* bytes, std::size_t size) {
  return ::write(fd, bytes, size);
}

std::ptrdiff_t FileSystem::pread(int fd, std::byte* to, std::size_t size, std::uint64_t offset) {
  return ::pread(fd, to, size, static_cast<off_t>(offset));
}

std::ptrdiff_t FileSystem::pwrite(int fd, const std::byte* bytes, std::size_t size,
                                  std::uint64_t offset) {
  return ::pwrite(fd, bytes, size, static_cast<off_t>(offset));
}

int FileSystem::fsync(int fd) {
  return ::fsync(fd);
}

int FileSystem::rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str());
}

int FileSystem::unlink(const std::string& path) {
  return ::unlink(path.c_str());
}

int FileSystem::mkdir(const std::string& path, unsigned mode) {
  return ::mkdir(path.c_str(), static_cast<mode_t>(mode));
}

}  // namespace tenzro::store
